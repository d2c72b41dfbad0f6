//go:build e2e

package kubernetes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// TestAQuotaIsReachedAndLifted has room for one Pod of two.
func TestAQuotaIsReachedAndLifted(t *testing.T) {
	f := newFleet(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}
	must(t, f.client.Create(t.Context(), quota))
	wait(t, 30*time.Second, "the quota being in force", func() string {
		must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		if len(quota.Status.Hard) == 0 {
			return "it has no status"
		}
		return ""
	})
	f.proxy("a")
	first, _ := f.isReady("a", 1)
	f.proxy("b")
	full := func() string {
		if p := f.get("b"); reason(p, v1alpha1.ConditionProvisioned) != v1alpha1.ReasonQuotaExceeded {
			return conditions(p)
		}
		return ""
	}
	wait(t, 30*time.Second, "the second Proxy waiting for the quota", full)
	during(t, 2*time.Second, "it goes on to wait", func() string {
		if n := len(f.pods()); n != 1 {
			return "there is another Pod"
		}
		return ""
	})
	more := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"2"}}}`)) // its status changes all the time
	must(t, f.client.Patch(t.Context(), quota, more))
	var p *v1alpha1.Proxy
	took := wait(t, readyIn, "the second Proxy being Ready", func() string {
		if p = f.get("b"); !isTrue(p, v1alpha1.ConditionReady) {
			return conditions(p)
		}
		return ""
	})
	if now := f.get("a"); attemptOf(now) != 1 || now.Status.ProviderID != first.Status.ProviderID {
		t.Error("the first one was replaced")
	}
	proved(t, "a reached quota shows as %s, and %s after it was lifted the Proxy is Ready", v1alpha1.ReasonQuotaExceeded, took.Round(100*time.Millisecond))
}
