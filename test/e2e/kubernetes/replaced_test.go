//go:build e2e

package kubernetes

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	epx "github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// TestEachEndOfAPodIsMendedOnce ends Pods in every way in which Pods end. Each is of a Proxy of its own: an instance that does
// not live long is mended at once only the first time.
func TestEachEndOfAPodIsMendedOnce(t *testing.T) {
	f := newFleet(t)
	ways := []struct {
		name, said string
		end        func(pod *corev1.Pod) error
	}{
		{"deleted", "deleted", func(pod *corev1.Pod) error {
			return f.kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{})
		}},
		{"killed", "killed without grace", func(pod *corev1.Pod) error {
			return f.kube.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}},
		{"evicted", "evicted through the API", func(pod *corev1.Pod) error {
			return f.kube.CoreV1().Pods(pod.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
		}},
		{"failed", "failed by its node under pressure", func(pod *corev1.Pod) error {
			// What a kubelet under pressure writes.
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			_, err := f.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			return err
		}},
	}
	for _, way := range ways {
		f.proxy(way.name)
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			p, _ := f.isReady(way.name, 1)
			before := f.pod(p)
			c := f.crawler()
			must(t, way.end(before))
			withdrawn := wait(t, 5*time.Second, "no lease being granted any more", func() string { return f.granted(c, way.name, before.Status.PodIP) })
			p, took := f.isReady(way.name, 2)
			if after := f.pod(p); after.UID == before.UID {
				t.Error("it is the same Pod")
			}
			f.once(way.name, 2)
			proved(t, "a Pod that was %s is withdrawn within %s and replaced once, within %s", way.said, withdrawn.Round(10*time.Millisecond), took.Round(100*time.Millisecond))
		})
	}
}

// granted complains where a proxy of that address is leased.
func (f *fleet) granted(c *epx.Client, name, ip string) string {
	l, err := c.Acquire(f.t.Context(), epx.Request{Namespace: f.namespace, Selector: map[string]string{"name": name}, TTL: time.Minute})
	if err != nil {
		return ""
	}
	defer func() { must(f.t, l.Release(context.Background())) }()
	if l.Proxy().IP == ip {
		return "one was granted at " + ip
	}
	return ""
}

// once checks for a while that nothing is replaced any more.
func (f *fleet) once(name string, attempt int64) {
	f.t.Helper()
	during(f.t, 3*time.Second, "one replacement alone", func() string {
		p := f.get(name)
		pods := 0
		for _, pod := range f.pods() {
			if pod.Labels[provider.LabelUID] == string(p.UID) {
				pods++
			}
		}
		if got := attemptOf(p); got != attempt || pods != 1 {
			return fmt.Sprintf("attempt %d, %d Pods", got, pods)
		}
		return ""
	})
}

// TestAKubeletThatRestartsReplacesNothing stops the kubelet for a while, and kills it once.
func TestAKubeletThatRestartsReplacesNothing(t *testing.T) {
	node, err := control.FromEnv()
	if err != nil {
		t.Skipf("the kubelet is not ours to restart: %v", err)
	}
	f := newFleet(t)
	f.proxy("a")
	p, _ := f.isReady("a", 1)
	before := f.pod(p)
	for _, end := range []func(context.Context, string) error{node.Stop, node.Kill} {
		must(t, end(t.Context(), "kubelet"))
		during(t, 3*time.Second, "serving without a kubelet", func() string {
			if status, _, err := f.fetch(f.browser(as(before, password)), f.site()); err != nil || status != 200 {
				return fmt.Sprintf("%d, %v", status, err)
			}
			return ""
		})
		must(t, node.Start(t.Context(), "kubelet"))
		wait(t, time.Minute, "the node being back", func() string {
			nodes, err := f.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, c := range nodes.Items[0].Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					return ""
				}
			}
			return "it is not Ready"
		})
	}
	f.once("a", 1)
	p, _ = f.isReady("a", 1)
	if after := f.pod(p); after.UID != before.UID {
		t.Error("it is another Pod")
	}
	f.crawls(t, f.lease(f.crawler(), "a"))
	proved(t, "a kubelet that is stopped and started, or killed, replaces nothing; its Pod serves all the while")
}
