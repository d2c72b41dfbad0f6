package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A call that finds a target denied shows in the entry's health then and there, not with the next check.
func TestADenialShowsAtOnce(t *testing.T) {
	t.Parallel()
	x := newCloudOnHost(t, 95)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	p := x.start("--provider-check-interval=1h")
	x.create("first", "cloud")
	until(t, "the first Proxy Ready", func() bool { return x.ready("first") })
	health := func() string {
		h := &v1alpha1.ProviderHealth{}
		if err := x.c.Get(t.Context(), client.ObjectKey{Name: x.named("cloud")}, h); err != nil {
			return err.Error()
		}
		return said(meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady))
	}
	until(t, "the entry is healthy", func() bool { return strings.HasPrefix(health(), "True ") })
	for _, call := range []string{"instances.insert", "instances.get", "instances.aggregatedList", "disks.aggregatedList", "disks.get", "zones.get"} {
		x.emulator.Inject(gcpemulator.On(call), gcpemulator.Fault{Status: 401})
	}
	x.create("second", "cloud")
	until(t, "the second Proxy waits", func() bool { return strings.HasPrefix(x.provisioned("second"), "False ProviderUnavailable") })
	until(t, "the entry is not healthy", func() bool { return strings.HasPrefix(health(), "False Unauthorized") })
	if !x.ready("first") {
		t.Error("the first Proxy was given up")
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
