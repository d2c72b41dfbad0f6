//go:build e2e

package kubernetes

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (f *fleet) stopOperator() error  { return f.scale(0) }
func (f *fleet) startOperator() error { return f.scale(1) }

// scale sets how many replicas of the operator run, and waits until it is so.
func (f *fleet) scale(n int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = operatorNamespace, deployment
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
	if err := f.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return err
	}
	return poll(ctx, 2*time.Minute, func() string {
		pods := &corev1.PodList{}
		if err := f.client.List(ctx, pods, client.InNamespace(operatorNamespace)); err != nil {
			return err.Error()
		}
		if _, err := f.leader(ctx); int32(len(pods.Items)) != n || n > 0 && err != nil {
			return fmt.Sprintf("%d replicas: %v", len(pods.Items), err)
		}
		return ""
	})
}

// TestARestartedOperatorGoesOn takes the operator away and brings it back: its Proxies serve meanwhile.
func TestARestartedOperatorGoesOn(t *testing.T) {
	f := newFleet(t)
	f.proxy("a")
	p, _ := f.isReady("a", 1)
	pod := f.pod(p)
	must(t, f.stopOperator())
	if status, _, err := f.fetch(f.browser(as(pod, password)), f.site()); err != nil || status != 200 {
		t.Errorf("the proxy without the operator: %d, %v", status, err)
	}
	must(t, f.startOperator())
	began := time.Now()
	f.crawls(t, f.lease(f.crawler(), "a"))
	took := time.Since(began)
	p, _ = f.isReady("a", 1)
	if after := f.pod(p); after.UID != pod.UID {
		t.Error("it is another Pod")
	}
	list := &corev1.PodList{}
	must(t, f.client.List(t.Context(), list, client.InNamespace(operatorNamespace)))
	for _, p := range list.Items {
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 {
			t.Errorf("the operator's container was restarted %d times: %+v", s.RestartCount, s.LastTerminationState)
		}
	}
	proved(t, "the operator, as a Pod under its own manifests, goes away and comes back; the proxy serves meanwhile, and is leased again %s after", took.Round(100*time.Millisecond))
}
