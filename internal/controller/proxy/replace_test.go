package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func setPort(port int32) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To(port) }
}

func atAttempt(n int64) func(*v1alpha1.Proxy) bool {
	return func(p *v1alpha1.Proxy) bool {
		return p.Status.Instance != nil && p.Status.Instance.Attempt == n && reason(p) == v1alpha1.ReasonCreated
	}
}

func TestADriftedInstanceIsDrainedAndReplaced(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{DeleteDelay: 5 * time.Second})
		key := x.managed("a")
		before := x.untilRunning(key)
		x.leases.hold(1)
		x.edit(key, setPort(8080))
		x.pass(key)
		p := x.get(key)
		if reason(p) != v1alpha1.ReasonDraining || p.Status.DrainingSince == nil || p.Status.IP != before.Status.IP {
			t.Fatalf("%+v", p.Status)
		}
		if len(x.leases.withdrawn) == 0 {
			t.Fatal("grants were not refused")
		}
		for range 60 { // one lease holds it for a minute
			x.pass(key)
			x.step(time.Second)
		}
		if x.backend.Calls(providertest.OpDelete) != 0 {
			t.Fatal("deleted although a lease is held and the drain time-out has not passed")
		}
		x.leases.hold(0)
		p = x.until(key, "attempt 2", func(p *v1alpha1.Proxy) bool {
			if n := x.instances(); n > 1 {
				t.Fatalf("%d instances at one time", n)
			}
			return atAttempt(2)(p)
		})
		if p.Status.Port != 8080 || p.Status.DrainingSince != nil || p.Status.ReplacingSince == nil {
			t.Fatalf("%+v", p.Status)
		}
		x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
		x.pass(key)
		if p := x.get(key); p.Status.ReplacingSince != nil || p.Status.Phase != v1alpha1.PhaseReady {
			t.Fatalf("%+v", p.Status)
		}
	})
}

func TestLeasesHoldAReplacementOnlyUntilTheDrainTimeout(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.untilRunning(key)
	x.leases.hold(3)
	x.edit(key, setPort(8080))
	began := x.clock.Now()
	x.until(key, "attempt 2", atAttempt(2))
	if took := x.clock.Since(began); took < 2*time.Minute || took > 3*time.Minute {
		t.Fatalf("replaced after %s", took)
	}
}

func TestWhatCannotBeReplacedKeepsServing(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1alpha1.Proxy){
		"the plan is refused": func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-typo"} },
		"cloud-init needs credentials that there are not": func(p *v1alpha1.Proxy) {
			p.Spec.CloudInit = &v1alpha1.CloudInit{Inline: "password: ${PROXY_PASSWORD}"}
		},
		"a Secret is missing": func(p *v1alpha1.Proxy) {
			p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "nowhere"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			before := x.untilRunning(key)
			x.health.say(before, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
			x.edit(key, edit)
			for range 20 {
				x.pass(key)
				x.step(time.Minute)
			}
			p := x.get(key)
			if reason(p) != v1alpha1.ReasonUpdateBlocked || p.Status.Phase != v1alpha1.PhaseReady || p.Status.IP != before.Status.IP || x.backend.Calls(providertest.OpDelete) != 0 {
				t.Fatalf("%+v", p.Status)
			}
		})
	}
}

func TestTheReplaceAnnotationAsksOncePerValue(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a", ask("before the first attempt"))
	x.untilRunning(key)
	settled := func(attempt int64, why string) {
		t.Helper()
		for range 30 {
			x.pass(key)
			x.step(10 * time.Second)
		}
		if p := x.get(key); p.Status.Instance.Attempt != attempt || x.instances() != 1 {
			t.Fatalf("%s: attempt %d, %d instances", why, p.Status.Instance.Attempt, x.instances())
		}
	}
	settled(1, "the first attempt answers what stood there before")
	x.edit(key, ask("1"))
	x.until(key, "attempt 2", atAttempt(2))
	settled(2, "asked once")
	x.edit(key, ask("2"))
	x.pass(key)
	x.edit(key, ask("3")) // asked again while the first is under way: one new exit answers both
	x.until(key, "attempt 3", atAttempt(3))
	settled(3, "asked twice in a row")
	x.edit(key, ask(""))
	settled(3, "an empty value asks for nothing")
	if got := x.get(key).Status.Replaced; got != "3" {
		t.Fatalf("replaced %q", got)
	}
}

func TestASpecChangedBackCancelsTheReplacement(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	before := x.untilRunning(key)
	x.leases.hold(1)
	x.edit(key, setPort(8080))
	x.pass(key)
	x.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Port = nil })
	x.pass(key)
	p := x.get(key)
	if p.Status.DrainingSince != nil || p.Status.ReplacingSince != nil || p.Status.Instance.Attempt != 1 || p.Status.IP != before.Status.IP {
		t.Fatalf("%+v", p.Status)
	}
	if len(x.leases.readmitted) != 1 || x.leases.readmitted[0] != x.leases.withdrawn[0] {
		t.Fatalf("withdrawn %v, readmitted %v", x.leases.withdrawn, x.leases.readmitted)
	}
}

// fleetOf makes n running, healthy Proxies.
func fleetOf(x *rig, n int) []types.NamespacedName {
	x.t.Helper()
	keys := make([]types.NamespacedName, n)
	for i := range n {
		keys[i] = x.managed(fmt.Sprintf("p%02d", i))
		x.heal(x.untilRunning(keys[i]))
	}
	return keys
}

// heal makes probes succeed and takes that into the status.
func (x *rig) heal(p *v1alpha1.Proxy) {
	x.t.Helper()
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.pass(clientKey(p))
}

// serving counts the Proxies that are Ready.
func (x *rig) serving() (n int) {
	for _, p := range x.all() {
		if p.Status.Phase == v1alpha1.PhaseReady {
			n++
		}
	}
	return n
}

func TestTheBudgetBoundsHowManyAreReplacedAtOneTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong func(x *rig, keys []types.NamespacedName)
		// dead: they stop serving at once, so only attempts count.
		dead bool
	}{
		"a change rolled out to all": {wrong: func(x *rig, keys []types.NamespacedName) {
			for _, key := range keys {
				x.edit(key, setPort(8080))
			}
		}},
		"a backend that powers all off": {dead: true, wrong: func(x *rig, keys []types.NamespacedName) {
			for _, key := range keys {
				x.backend.Stop(x.get(key).Status.ProviderID, "")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			x.share = "20%"
			x.restart()
			keys := fleetOf(x, 10)
			c.wrong(x, keys)
			began := x.clock.Now()
			for done := 0; done < len(keys); {
				if x.clock.Since(began) > 10*time.Minute {
					t.Fatalf("only %d of %d are replaced", done, len(keys))
				}
				done = 0
				for _, key := range keys {
					x.pass(key)
					p := x.get(key)
					if p.Status.Instance.Attempt == 2 && reason(p) == v1alpha1.ReasonCreated {
						x.heal(p)
						done++
					}
				}
				if got := x.Count("").Replacing; got > 2 {
					t.Fatalf("%d are being replaced at one time, 2 are allowed", got)
				}
				if got := x.serving(); !c.dead && got < 8 {
					t.Fatalf("only %d of 10 serve", got)
				}
				x.step(5 * time.Second)
			}
			for _, key := range keys {
				if p := x.get(key); p.Status.Instance.Attempt != 2 || p.Status.Phase != v1alpha1.PhaseReady {
					t.Fatalf("%s: attempt %d, phase %s", key.Name, p.Status.Instance.Attempt, p.Status.Phase)
				}
			}
		})
	}
}

func TestAReplacementThatDoesNotGetHealthyStopsTheRollout(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(*rig){
		"unhealthy":         func(*rig) {}, // nobody says that the new ones are healthy
		"cannot be created": func(x *rig) { x.backend.SetCapacity(1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			keys := fleetOf(x, 5) // 10 % of 5 is less than one: one at a time
			broken(x)
			for _, key := range keys {
				x.edit(key, setPort(8080))
			}
			for i := range 60 {
				if i == 30 {
					x.restart() // what holds the place must be on record
				}
				for _, key := range keys {
					x.pass(key)
				}
				x.step(10 * time.Second)
			}
			if got := x.serving(); got != 4 {
				t.Fatalf("%d of 5 serve after a roll-out that breaks what it touches, want 4", got)
			}
			waiting := 0
			for _, p := range x.all() {
				if reason(&p) == v1alpha1.ReasonUpdateBlocked && strings.Contains(provisioned(&p).Message, "turn") {
					waiting++
				}
			}
			if waiting != 4 {
				t.Fatalf("%d say that they wait for their turn, want 4", waiting)
			}
		})
	}
}

func TestInstancesThatDieYoungComeBackWithBackoff(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*providertest.Backend, string) bool{
		"stopped":  func(b *providertest.Backend, id string) bool { return b.Stop(id, "") },
		"vanished": func(b *providertest.Backend, id string) bool { return b.Vanish(id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			p := x.untilRunning(key)
			var waits []time.Duration
			for range 5 {
				x.step(window) // so that only the backoff is measured
				die(x.backend, p.Status.ProviderID)
				began := x.clock.Now()
				p = x.until(key, "the next attempt", atAttempt(p.Status.Instance.Attempt+1))
				waits = append(waits, x.clock.Since(began))
			}
			for i, want := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
				if waits[i] < want || waits[i] > want+20*time.Second {
					t.Fatalf("waits %v, the one at %d should be about %s", waits, i, want)
				}
			}
			x.step(time.Hour) // a long life ends the row
			die(x.backend, p.Status.ProviderID)
			began := x.clock.Now()
			x.until(key, "the next attempt", atAttempt(p.Status.Instance.Attempt+1))
			if took := x.clock.Since(began); took > 20*time.Second {
				t.Fatalf("%s after a long life", took)
			}
		})
	}
}

func TestWhatDoesNotComeUpInTimeIsGivenUp(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.backend.SetBootDelay(time.Hour)
	key := x.managed("a")
	began := x.clock.Now()
	x.pass(key)
	x.step(14 * time.Minute)
	x.until(key, "the next attempt", func(p *v1alpha1.Proxy) bool { return p.Status.Instance != nil && p.Status.Instance.Attempt == 2 })
	if took := x.clock.Since(began); took < 15*time.Minute || took > 17*time.Minute {
		t.Fatalf("given up after %s", took)
	}
}

func TestADeletionWaitsForLeasesButNotForEver(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.untilRunning(key)
	x.leases.hold(1)
	// The deletion's time is the API server's, so the rig's clock joins it.
	x.clock.SetTime(time.Now())
	x.delete(key)
	x.pass(key)
	p := x.get(key)
	if reason(p) != v1alpha1.ReasonDraining || provisioned(p).Status != metav1.ConditionFalse || x.backend.Calls(providertest.OpDelete) != 0 {
		t.Fatalf("%+v", provisioned(p))
	}
	began := x.clock.Now()
	x.until(key, "gone", gone)
	if took := x.clock.Since(began); took < 115*time.Second || took > 3*time.Minute {
		t.Fatalf("deleted after %s", took)
	}
}
