package proxy_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func replaceAfter(d time.Duration) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.ReplaceUnhealthyAfter = v1alpha1.NewDuration(d) }
}

// watch runs passes, as the results and the engine's transitions ask for them, and says after each what f wants said.
func (x *rig) watch(key types.NamespacedName, d time.Duration, f func(*v1alpha1.Proxy)) {
	x.t.Helper()
	for end := x.clock.Now().Add(d); x.clock.Now().Before(end); {
		res := x.pass(key)
		if p := x.get(key); f != nil {
			f(p)
		}
		if res.RequeueAfter == 0 {
			res.RequeueAfter = time.Minute // a list or a verdict would wake it
		}
		x.step(min(res.RequeueAfter, end.Sub(x.clock.Now())))
	}
}

func TestAProxyThatStaysUnhealthyIsReplacedOnce(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a", replaceAfter(10*time.Minute))
	p := x.untilRunning(key)
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.until(key, "Ready", ready)
	x.step(time.Hour)
	dead := func(p *v1alpha1.Proxy) { x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0) }
	dead(x.get(key))
	began := x.clock.Now()
	if res := x.pass(key); res.RequeueAfter < 9*time.Minute || res.RequeueAfter > 11*time.Minute {
		t.Errorf("the next pass comes in %s", res.RequeueAfter)
	}
	x.watch(key, 9*time.Minute, func(p *v1alpha1.Proxy) {
		if p.Status.Instance.Attempt != 1 || p.Status.DrainingSince != nil {
			t.Fatalf("replaced after %s: %+v", x.clock.Since(began), p.Status)
		}
	})
	// The wait is counted from the condition on record: a restart forgets nothing.
	x.restart()
	var replaced time.Duration
	x.watch(key, 20*time.Minute, func(p *v1alpha1.Proxy) {
		if p.Status.Instance.Attempt == 2 && replaced == 0 {
			replaced = x.clock.Since(began)
		}
		if reason(p) == v1alpha1.ReasonCreated && p.Status.Instance.Attempt == 2 {
			x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
		}
	})
	if p := x.get(key); p.Status.Instance.Attempt != 2 || !ready(p) || x.instances() != 1 || replaced < 10*time.Minute || replaced > 13*time.Minute {
		t.Errorf("replaced after %s, %d instances: %+v", replaced, x.instances(), p.Status)
	}
	told := strings.Join(x.events.all(), "\n")
	if n := strings.Count(told, "Unhealthy for longer than spec.replaceUnhealthyAfter"); n != 1 {
		t.Errorf("said %d times why:\n%s", n, told)
	}
}

func TestAnUnhealthyProxyIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec    func(*v1alpha1.Proxy)
		prepare func(*rig, *v1alpha1.Proxy)
		message string
	}{
		"without the field": {func(*v1alpha1.Proxy) {}, func(x *rig, p *v1alpha1.Proxy) {
			x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
		}, "the instance is running"},
		"while a shared cause is suspected": {replaceAfter(time.Minute), func(x *rig, p *v1alpha1.Proxy) {
			x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
			x.health.suspects(true)
		}, "while those of most others that probe the same url do not"},
		"while it is held": {replaceAfter(time.Minute), func(x *rig, p *v1alpha1.Proxy) {
			x.health.hold(p)
		}, "the instance is running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a", tc.spec)
			p := x.untilRunning(key)
			x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
			x.until(key, "Ready", ready)
			tc.prepare(x, p)
			x.watch(key, 2*time.Hour, nil)
			p = x.get(key)
			if p.Status.Instance.Attempt != 1 || p.Status.DrainingSince != nil || !strings.Contains(provisioned(p).Message, tc.message) {
				t.Errorf("%+v", p.Status)
			}
		})
	}
}

func TestAReplacementForBeingUnhealthyEndsWhenItIsHealthyAgain(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a", replaceAfter(time.Minute))
	p := x.untilRunning(key)
	x.leases.hold(1)
	x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
	x.until(key, "draining", func(p *v1alpha1.Proxy) bool { return p.Status.DrainingSince != nil })
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	p = x.until(key, "Ready", ready)
	if p.Status.Instance.Attempt != 1 || p.Status.DrainingSince != nil || p.Status.ReplacingSince != nil || len(x.leases.readmitted) == 0 {
		t.Errorf("%+v, readmitted %v", p.Status, x.leases.readmitted)
	}
}

func TestAHeldVerdictIsShownAndAnnounced(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, 7*time.Millisecond)
	x.until(key, "Ready", ready)
	x.health.hold(p)
	for range 3 {
		x.pass(key)
		x.step(time.Minute)
	}
	p = x.get(key)
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonSharedCauseSuspected || ready(p) || p.Status.LatencyMillis == nil {
		t.Errorf("%+v", p.Status)
	}
	told := strings.Join(x.events.all(), "\n")
	if n := strings.Count(told, "Warning SharedCauseSuspected"); n != 1 {
		t.Errorf("announced %d times:\n%s", n, told)
	}
}

// A restart, or an outage, in the middle of a drain neither ends the replacement nor goes on with it.
func TestAReplacementForBeingUnhealthyWaitsWhileThatIsInDoubt(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a", replaceAfter(time.Minute))
	p := x.untilRunning(key)
	x.leases.hold(1)
	x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
	x.until(key, "draining", func(p *v1alpha1.Proxy) bool { return p.Status.DrainingSince != nil })
	x.restart()
	x.health.suspects(true)
	x.watch(key, time.Hour, func(p *v1alpha1.Proxy) {
		if p.Status.DrainingSince == nil || p.Status.Instance.Attempt != 1 || reason(p) != v1alpha1.ReasonDraining {
			t.Fatalf("%+v", p.Status)
		}
	})
	x.health.suspects(false)
	x.until(key, "attempt 2", atAttempt(2))
}

// A Proxy whose instances are never Healthy, perhaps because its health check can never pass, is not replaced at the pace
// of the field for ever.
func TestReplacementsThatChangeNothingSlowDown(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a", replaceAfter(12*time.Minute))
	p := x.untilRunning(key)
	x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
	x.watch(key, 48*time.Hour, func(p *v1alpha1.Proxy) {
		if reason(p) == v1alpha1.ReasonCreated {
			x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
		}
	})
	// Every 12 minutes would be 240.
	if n := x.get(key).Status.Instance.Attempt; n < 10 || n > 60 {
		t.Errorf("%d attempts in two days", n)
	}
}
