//go:build e2e

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCredentialsAreEnforcedAndRotated changes a password under a Pod that goes on.
func TestCredentialsAreEnforcedAndRotated(t *testing.T) {
	const next = "e2e-rotated-7c40"
	f := newFleet(t)
	f.proxy("a")
	p, _ := f.isReady("a", 1)
	pod := f.pod(p)
	through := func(password string) string {
		status, _, err := f.fetch(f.browser(as(pod, password)), f.site())
		return fmt.Sprintf("%d %v", status, err)
	}
	for password, want := range map[string]int{"": http.StatusProxyAuthRequired, "wrong": http.StatusProxyAuthRequired, password: http.StatusOK} {
		if got := through(password); got != fmt.Sprintf("%d <nil>", want) {
			t.Errorf("with the password %q: %s, want %d", password, got, want)
		}
	}
	proved(t, "a proxy answers 407 without its credentials or with wrong ones")

	c := f.crawler()
	f.credentials(next)
	took := wait(t, time.Minute, "the new password being accepted", func() string {
		if got := through(next); got != "200 <nil>" {
			return got
		}
		return ""
	})
	if took > 35*time.Second {
		t.Errorf("the new password took %s to be accepted; the contract says 30 s", took)
	}
	old := wait(t, 30*time.Second, "the old password being refused", func() string {
		if got := through(password); got != "407 <nil>" {
			return got
		}
		return ""
	})
	wait(t, time.Minute, "leases with the new password", func() string {
		l := f.lease(c, "a")
		defer func() { must(t, l.Release(context.Background())) }()
		u, err := l.HTTPProxy(nil)
		must(t, err)
		if got, _ := u.User.Password(); got != next {
			return "leases still have the old one"
		}
		return ""
	})
	p, _ = f.isReady("a", 1)
	if after := f.pod(p); after.UID != pod.UID {
		t.Error("the Pod was replaced")
	}
	f.crawls(t, f.lease(c, "a"))
	proved(t, "a rotated password is accepted after %s and the old one refused %s later, by the same Pod", took.Round(100*time.Millisecond), old.Round(100*time.Millisecond))

	f.nowhere(password, next, token)
}

// nowhere checks that secrets show up neither in what others can read of the operator's objects nor in any log.
func (f *fleet) nowhere(secrets ...string) {
	f.t.Helper()
	hashes := &corev1.SecretList{}
	must(f.t, f.client.List(f.t.Context(), hashes, client.InNamespace(f.namespace)))
	for _, s := range hashes.Items {
		if hash := s.Data["htpasswd"]; hash != nil {
			_, h, _ := strings.Cut(strings.TrimSpace(string(hash)), ":")
			secrets = append(secrets, h)
		}
	}
	texts := map[string]string{}
	for kind, list := range map[string]client.ObjectList{"Pods": &corev1.PodList{}, "Events": &corev1.EventList{}} {
		must(f.t, f.client.List(f.t.Context(), list))
		data, err := json.Marshal(list)
		must(f.t, err)
		texts[kind] = string(data)
	}
	data, err := json.Marshal(f.get("a"))
	must(f.t, err)
	texts["the Proxy"] = string(data)
	pods := &corev1.PodList{}
	must(f.t, f.client.List(f.t.Context(), pods))
	for _, p := range pods.Items {
		if p.Namespace != operatorNamespace && p.Namespace != f.namespace {
			continue
		}
		log, err := f.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(f.t.Context())
		must(f.t, err)
		texts["the log of "+p.Name] = string(log)
		if len(log) == 0 && p.Namespace == f.namespace {
			f.t.Errorf("the log of %s is empty", p.Name)
		}
	}
	for where, text := range texts {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				f.t.Errorf("%s: %q is in it", where, s)
			}
		}
	}
	proved(f.t, "%d secrets are in no Pod, Event, Proxy and in none of %d logs", len(secrets), len(texts)-3)
}
