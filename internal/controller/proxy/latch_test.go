package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

const unproven = "the last attempt is not proven absent yet; the next follows by itself"

func ask(value string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationReplace: value} }
}

// refuseCreations makes the backend refuse creations for good.
func (x *rig) refuseCreations() {
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		if op == providertest.OpCreate {
			f.Err = provider.Wrap(provider.ErrPermanent, "create", "", "", errors.New("400 no such machine type"))
		}
		return f
	})
}

// TestAnAnsweredFailureIsNotShownAnyMore: whoever corrects a refused spec sees at once that it was taken up, although the
// refused attempt is not proven absent yet.
func TestAnAnsweredFailureIsNotShownAnyMore(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(x *rig, key types.NamespacedName){
		"another spec":          func(x *rig, key types.NamespacedName) { x.edit(key, setPort(8080)) },
		"asked for again":       func(x *rig, key types.NamespacedName) { x.edit(key, ask("1")) },
		"another configuration": func(x *rig, _ types.NamespacedName) { x.configure(handleRevision("2")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyKind(t, func(t *testing.T, kind providertest.Kind) {
				x := newRig(t, kind, providertest.BackendOptions{})
				key := x.managed("a")
				x.refuseCreations()
				x.run(key, 5*time.Second)
				if p := x.get(key); p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Latch == nil {
					t.Fatalf("%+v", p.Status)
				}
				creates := x.backend.Calls(providertest.OpCreate)
				writes := x.counted()
				answer(x, key)
				x.run(key, time.Second)
				p := x.get(key)
				if c := provisioned(p); c.Reason != v1alpha1.ReasonProvisioning || c.Message != unproven || c.ObservedGeneration != p.Generation || *writes != 1 {
					t.Fatalf("a second after the answer, with %d writes: %+v", *writes, c)
				}
				x.run(key, window-10*time.Second)
				if n := x.backend.Calls(providertest.OpCreate); n != creates || *writes != 1 {
					t.Fatalf("%d creations, %d writes before the attempt is proven absent", n-creates, *writes)
				}
				// It is refused again, and that is shown, and held, as before.
				x.run(key, 30*time.Second)
				if p := x.get(key); p.Status.Instance.Attempt != 2 || reason(p) != v1alpha1.ReasonPermanentError || p.Status.Latch.Attempts != 2 {
					t.Fatalf("%+v", p.Status)
				}
				x.run(key, 15*time.Minute)
				if n := x.backend.Calls(providertest.OpCreate); n != creates+1 {
					t.Fatalf("%d creations for one answer", n-creates)
				}
			})
		})
	}
}

// TestAFailureThatNobodyAnsweredStays: neither time nor another process makes the words change.
func TestAFailureThatNobodyAnsweredStays(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindName, providertest.BackendOptions{})
	key := x.managed("a")
	x.refuseCreations()
	x.run(key, 5*time.Second)
	writes := x.counted()
	x.run(key, window+time.Minute)
	if c := provisioned(x.get(key)); c.Reason != v1alpha1.ReasonPermanentError || !strings.Contains(c.Message, "no such machine type") || *writes > 0 {
		t.Errorf("%d writes, %+v", *writes, c)
	}
}

// TestTheReplaceAnnotationReleasesALatchOncePerValue: it is a person's wish, and one wish is one try, whatever keeps the
// attempt from being made.
func TestTheReplaceAnnotationReleasesALatchOncePerValue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(x *rig) types.NamespacedName
		tries   func(x *rig, p *v1alpha1.Proxy) int
	}{
		"refused by Create": {func(x *rig) types.NamespacedName {
			x.refuseCreations()
			return x.managed("a", ask("0"))
		}, func(x *rig, _ *v1alpha1.Proxy) int { return x.backend.Calls(providertest.OpCreate) }},
		"refused by Plan": {func(x *rig) types.NamespacedName {
			return x.managed("a", ask("0"), func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-typo"} })
		}, func(_ *rig, p *v1alpha1.Proxy) int { return int(p.Status.Latch.Attempts) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := c.prepare(x)
			x.run(key, 2*time.Minute)
			was := 0
			expect := func(tries int, why string) {
				t.Helper()
				x.run(key, 2*time.Minute) // the shortest wait is ten
				n := c.tries(x, x.get(key))
				if n-was != tries || reason(x.get(key)) != v1alpha1.ReasonPermanentError {
					t.Errorf("%s: %d tries, want %d: %+v", why, n-was, tries, provisioned(x.get(key)))
				}
				was = n
			}
			expect(1, "the value that it began with")
			x.edit(key, ask("1"))
			expect(1, "a new value")
			expect(0, "the same value")
			x.edit(key, func(p *v1alpha1.Proxy) { p.Annotations = nil })
			expect(0, "taken away")
			x.edit(key, func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{"example.com/other": "1"} })
			expect(0, "another annotation")
			x.restart()
			expect(0, "after a restart")
			x.edit(key, ask("2"))
			expect(1, "another new value")
		})
	}
}

func TestAnInstanceThatOthersRemovedIsTold(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		for name, c := range map[string]struct {
			wait  time.Duration
			times int
		}{"soon after its creation": {0, 1}, "later": {window, 1}, "again and again": {window, 4}} {
			t.Run(name, func(t *testing.T) {
				x := newRig(t, kind, providertest.BackendOptions{})
				key := x.managed("a")
				for n := range c.times {
					p := x.untilRunning(key)
					x.heal(p)
					x.step(c.wait)
					id := p.Status.ProviderID
					x.backend.Vanish(id)
					next := int64(n + 2)
					x.until(key, "the next attempt", func(p *v1alpha1.Proxy) bool {
						if p.Status.Instance.Attempt < next && x.told("InstanceGone") > n+1 {
							t.Fatalf("told early, or twice: %q", x.events.all())
						}
						return p.Status.Instance.Attempt == next
					})
					if !strings.Contains(strings.Join(x.events.all(), "\n"), "Warning InstanceGone Reconcile the instance is gone, and not by the operator's doing: "+id+", attempt ") {
						t.Fatalf("%q", x.events.all())
					}
				}
				x.untilRunning(key)
				if n := x.told("InstanceGone"); n != c.times {
					t.Errorf("%d Events for %d instances: %q", n, c.times, x.events.all())
				}
			})
		}
	})
}

func TestWhatTheOperatorRemovesIsNotToldAsGone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(x *rig, p *v1alpha1.Proxy){
		"replaced": func(x *rig, p *v1alpha1.Proxy) { x.edit(clientKey(p), setPort(8080)) },
		"stopped":  func(x *rig, p *v1alpha1.Proxy) { x.backend.Stop(p.Status.ProviderID, "") },
		"replaced, with a restart after the deletion": func(x *rig, p *v1alpha1.Proxy) {
			x.edit(clientKey(p), setPort(8080))
			x.pass(clientKey(p))
			x.restart()
		},
		"a change taken back after a deletion whose answer got lost": func(x *rig, p *v1alpha1.Proxy) {
			x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
				if op == providertest.OpDelete {
					f.ArriveAfter = 5 * time.Second
				}
				return f
			})
			x.edit(clientKey(p), setPort(8080))
			x.pass(clientKey(p))
			x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Spec.Port = nil })
			x.pass(clientKey(p))
			x.step(window)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{DeleteDelay: 3 * time.Second})
			key := x.managed("a")
			p := x.untilRunning(key)
			x.step(window)
			end(x, p)
			x.until(key, "attempt 2", atAttempt(2))
			if n := x.told("InstanceGone"); n > 0 {
				t.Errorf("%q", x.events.all())
			}
		})
	}
	t.Run("never ran", func(t *testing.T) {
		t.Parallel()
		x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
		key := x.managed("a")
		x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
			if op == providertest.OpCreate && x.backend.Calls(op) == 1 {
				f.Err = errors.New("503")
			}
			return f
		})
		x.until(key, "attempt 2", atAttempt(2))
		if n := x.told("InstanceGone"); n > 0 {
			t.Errorf("%q", x.events.all())
		}
	})
}
