package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// guarded puts a guard around the rig's provider.
func (x *rig) guarded() {
	h := x.entries[x.entry]
	h.Provider = instrument.WithGuard(h.Provider, x.entry, x.clock)
	x.entries[x.entry] = h
}

// crowd takes every place at the rig's provider until free is called.
func (x *rig) crowd() (free func()) {
	x.t.Helper()
	var ends []func()
	for {
		ctx, end := instrument.WithPass(x.t.Context())
		ends = append(ends, end)
		err := instrument.Reserve(ctx, x.entries[x.entry].Provider, provider.Ref{})
		if err != nil {
			break
		}
	}
	if len(ends) < 2 {
		x.t.Fatal("the provider had no place before")
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// expectQueued runs passes that find the target busy: they write nothing and come back after a growing wait.
func (x *rig) expectQueued(key types.NamespacedName) {
	x.t.Helper()
	before := x.get(key)
	last := time.Duration(0)
	for n := range 10 {
		res := x.pass(key)
		if res.RequeueAfter <= 0 || res.RequeueAfter > 6*time.Second {
			x.t.Errorf("pass %d comes back after %s", n, res.RequeueAfter)
		}
		last = res.RequeueAfter
		x.step(res.RequeueAfter)
	}
	if last < 4*time.Second {
		x.t.Errorf("the wait has grown to %s only", last)
	}
	if after := x.get(key); after.ResourceVersion != before.ResourceVersion {
		x.t.Errorf("a busy target led to a write: %+v", provisioned(after))
	}
}

func TestABusyTargetCostsNoWrite(t *testing.T) {
	t.Parallel()
	for name, reach := range map[string]func(x *rig, key types.NamespacedName){
		"before the first attempt": func(x *rig, key types.NamespacedName) {
			x.edit(key, func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
		},
		"while it boots":       func(x *rig, key types.NamespacedName) { x.pass(key); x.pass(key) },
		"while it is deleted":  func(x *rig, key types.NamespacedName) { x.pass(key); x.delete(key); x.pass(key) },
		"when it runs":         func(x *rig, key types.NamespacedName) { x.untilRunning(key) },
		"when it has drifted":  func(x *rig, key types.NamespacedName) { x.untilRunning(key); x.edit(key, toPort(8080)) },
		"when it has vanished": func(x *rig, key types.NamespacedName) { x.backend.Vanish(x.untilRunning(key).Status.ProviderID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{BootDelay: 10 * time.Minute / 60})
			x.guarded()
			key := x.managed("a")
			reach(x, key)
			free := x.crowd()
			x.expectQueued(key)
			free()
			if p := x.get(key); p.DeletionTimestamp.IsZero() {
				x.untilRunning(key)
			} else {
				x.until(key, "gone", gone)
			}
		})
	}
}

func toPort(port int32) func(*v1alpha1.Proxy) { return func(p *v1alpha1.Proxy) { p.Spec.Port = &port } }

// An instance that is gone is withdrawn at once, also when the place where the next one goes is busy.
func TestABusyTargetHidesNoLoss(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	zones := zonedProvider{x.entries[x.entry].Provider}
	x.entries[x.entry] = registry.Handle{Name: x.entry, Revision: "1", Provider: instrument.WithGuard(zones, x.entry, x.clock)}
	key := x.managed("a", func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-a"} })
	p := x.untilRunning(key)
	x.step(window)
	x.backend.Vanish(p.Status.ProviderID)
	x.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-b"} })
	ctx, end := instrument.WithPass(t.Context())
	must(t, instrument.Reserve(ctx, x.entries[x.entry].Provider, provider.Ref{ID: "zones/zone-b/instances/other"}))
	x.pass(key)
	if p := x.get(key); p.Status.IP != "" || provisioned(p).Status != metav1.ConditionFalse || p.Status.Instance.Attempt != 1 {
		t.Errorf("while zone-b is busy: %+v", p.Status)
	}
	end()
	if p := x.untilRunning(key); !strings.HasPrefix(p.Status.ProviderID, "zones/zone-b/") || p.Status.Recreations == nil {
		t.Errorf("afterwards: %+v", p.Status)
	}
}

// zonedProvider has a target for each zone.
type zonedProvider struct{ provider.Provider }

func (zonedProvider) Target(ref provider.Ref) string {
	zone, _, _ := strings.Cut(strings.TrimPrefix(ref.ID, "zones/"), "/")
	return zone
}

func TestAnUnreachableTargetIsToldOnceAndLeftAlone(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.guarded()
	settled, fresh := x.managed("settled"), x.managed("fresh")
	x.untilRunning(settled)
	down := true
	x.backend.OnCall(func(string, provider.Ref) (f providertest.Fault) {
		if down {
			f.Err = provider.Wrap(provider.ErrTransient, "get", x.entry, "", errors.New("no route to host")).WithReason(provider.ReasonUnreachable)
		}
		return f
	})
	x.edit(fresh, func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
	x.pass(settled) // the one that finds out
	for _, key := range []types.NamespacedName{settled, fresh} {
		res := x.pass(key)
		if res.RequeueAfter < 8*time.Second || res.RequeueAfter > 15*time.Second {
			t.Errorf("%s comes back after %s, the target is left alone for 10s in all", key.Name, res.RequeueAfter)
		}
		told := x.get(key)
		x.step(time.Second)
		x.pass(key)
		if again := x.get(key); again.ResourceVersion != told.ResourceVersion {
			t.Errorf("%s was told again: %+v", key.Name, provisioned(again))
		}
	}
	if c := provisioned(x.get(settled)); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "no route to host") {
		t.Errorf("the settled one: %+v", c)
	}
	if c := provisioned(x.get(fresh)); c.Reason != v1alpha1.ReasonProviderUnavailable || !strings.Contains(c.Message, "did not answer") {
		t.Errorf("the fresh one: %+v", c)
	}
	down = false
	x.untilRunning(fresh)
	x.untilRunning(settled)
}

func TestADelayAskedForIsNeverCutShort(t *testing.T) {
	t.Parallel()
	const asked = 7 * time.Second
	for name, deleting := range map[string]bool{"creation": false, "deletion": true} {
		for _, random := range []float64{0, 0.5, 0.999} {
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			x.r.Random = func() float64 { return random }
			key := x.managed("a")
			if deleting {
				x.untilRunning(key)
				x.delete(key)
			}
			var refused []time.Time
			x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
				now := x.clock.Now()
				if n := len(refused); n > 0 && now.Sub(refused[n-1]) < asked && now.After(refused[n-1]) {
					t.Errorf("%s, random %.1f: a call %s after a refusal that asked for %s", name, random, now.Sub(refused[n-1]), asked)
				}
				if op == providertest.OpCreate || op == providertest.OpDelete {
					refused = append(refused, now)
					f.Err, f.RetryAfter = fmt.Errorf("slow down (%d)", len(refused)), asked // each in other words
				}
				return f
			})
			for range 100 {
				x.step(x.pass(key).RequeueAfter)
			}
			// The tenth wait is no longer than the first: the backend knows better than a doubling. A creation is sent
			// again only once its predecessor is proven to have left nothing.
			longest := asked * 5 / 4
			if !deleting {
				longest += window
			}
			if len(refused) < 5 {
				t.Errorf("%s: %d refusals in 100 passes", name, len(refused))
			}
			for i := 1; i < len(refused); i++ {
				if gap := refused[i].Sub(refused[i-1]); gap > longest {
					t.Errorf("%s, random %.1f: tried again %s after refusal %d", name, random, gap, i)
				}
			}
		}
	}
}

// planning is a provider whose Plan asks a target that may be busy.
type planning struct {
	provider.Provider
	busy bool
}

func (p *planning) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if p.busy {
		return "", provider.Wrap(provider.ErrTransient, "plan", "cloud", "", errors.New("busy")).WithReason(provider.ReasonBusy)
	}
	return p.Provider.Plan(ctx, req)
}

// A plan that was not made for lack of a place is no failure: nothing is written, and what runs goes on.
func TestAPlanThatFindsItsTargetBusyCostsNoWrite(t *testing.T) {
	t.Parallel()
	for name, reach := range map[string]func(x *rig, key types.NamespacedName){
		"before the first attempt": func(x *rig, key types.NamespacedName) {
			x.edit(key, func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
		},
		"when it has drifted": func(x *rig, key types.NamespacedName) { x.untilRunning(key); x.edit(key, toPort(8080)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{BootDelay: 10 * time.Second})
			key := x.managed("a")
			reach(x, key)
			h := x.entries[x.entry]
			p := &planning{Provider: h.Provider, busy: true}
			h.Provider = p
			x.entries[x.entry] = h
			x.expectQueued(key)
			p.busy = false
			x.untilRunning(key)
		})
	}
}
