//go:build e2e

package kubernetes

import (
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFromAnObjectToARequest is the shortest way through the whole system, and back.
func TestFromAnObjectToARequest(t *testing.T) {
	f := newFleet(t)
	began := time.Now()
	f.proxy("a")
	p, took := f.isReady("a", 1)
	pod := f.pod(p)
	proved(t, "a Proxy is Ready by probe %s after it was created", took.Round(100*time.Millisecond))
	if owners := pod.OwnerReferences; len(owners) != 1 || owners[0].UID != p.UID {
		t.Errorf("the Pod's owners are %v", owners)
	}
	l := f.lease(f.crawler(), "a")
	from, _, err := net.SplitHostPort(f.crawls(t, l))
	must(t, err)
	// Seen from another node the address may have been translated.
	proved(t, "a lease of it carries requests over HTTP and through a tunnel, %s after the Proxy was created; the website sees %s, the Pod is %s",
		time.Since(began).Round(100*time.Millisecond), from, pod.Status.PodIP)
	must(t, l.Release(t.Context()))

	// Another port needs another Pod.
	before := pod.UID
	p.Spec.Port = ptr.To[int32](8888)
	must(t, f.client.Update(t.Context(), p))
	most := 0
	took = wait(t, readyIn, "a replacement for another port", func() string {
		most = max(most, len(f.pods()))
		p = f.get("a")
		if attemptOf(p) != 2 || p.Status.Port != 8888 || !isTrue(p, "Ready") {
			return conditions(p)
		}
		return ""
	})
	if pod = f.pod(p); pod.UID == before || most > 1 {
		t.Errorf("Pod %s before, %s now, at most %d side by side", before, pod.UID, most)
	}
	f.crawls(t, f.lease(f.crawler(), "a"))
	proved(t, "a changed port replaces the Pod, once and never two at a time, within %s", took.Round(100*time.Millisecond))

	must(t, f.client.Delete(t.Context(), p))
	took = f.nothingLeft()
	proved(t, "nothing is left of a deleted Proxy after %s", took.Round(100*time.Millisecond))
	wait(t, time.Minute, "the object being gone", func() string {
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); client.IgnoreNotFound(err) != nil || err == nil {
			return "it is still there: " + strings.Join(p.Finalizers, ", ")
		}
		return ""
	})
}
