package proxy_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// The health engine may be behind: until it has taken in an instance's new address, its verdict is about the old one.
func TestAVerdictAboutAnotherAddressMakesNothingReady(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.until(key, "Ready", ready)
	x.backend.Start(p.Status.ProviderID) // comes back with another address
	moved := x.until(key, "the new address", func(now *v1alpha1.Proxy) bool { return now.Status.IP != p.Status.IP && now.Status.IP != "" })
	if ready(moved) || moved.Status.LatencyMillis != nil {
		t.Errorf("Ready on a verdict about %s: %+v", p.Status.IP, moved.Status)
	}
	x.health.say(moved, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.until(key, "Ready again", ready)
}

func ready(p *v1alpha1.Proxy) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
}
