package observe_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestWakesExactlyWhomItConcerns has three Proxies of which something happens to b.
func TestWakesExactlyWhomItConcerns(t *testing.T) {
	notProvisioned := func(p *fleet.Proxy) { p.Provisioned = false }
	both := func(f ...func(*fleet.Proxy)) func(*fleet.Proxy) {
		return func(p *fleet.Proxy) {
			for _, g := range f {
				g(p)
			}
		}
	}
	vanish := func(x *rig, p *fleet.Proxy) { x.backends["cloud"].Vanish(p.ProviderID) }
	stop := func(x *rig, p *fleet.Proxy) { x.backends["cloud"].Stop(p.ProviderID, "maintenance") }
	for _, tc := range []struct {
		name, reason string
		snapshot     func(*fleet.Proxy)
		happens      func(x *rig, p *fleet.Proxy)
		quiet        bool
	}{
		{name: "nothing", reason: "steady state", happens: func(*rig, *fleet.Proxy) {}, quiet: true},
		{name: "stopped", reason: "it is to be replaced", happens: stop},
		{name: "terminated", reason: "it is to be replaced", happens: func(x *rig, p *fleet.Proxy) { x.backends["cloud"].Terminate(p.ProviderID) }},
		{name: "unknown state", reason: "it is to be held and reported", happens: func(x *rig, p *fleet.Proxy) { x.backends["cloud"].Confuse(p.ProviderID) }},
		{name: "moved", reason: "another address, another subject", happens: func(x *rig, p *fleet.Proxy) {
			stop(x, p)
			x.backends["cloud"].Start(p.ProviderID)
		}},
		{name: "half gone", reason: "its disk still exists", happens: func(x *rig, p *fleet.Proxy) { x.backends["cloud"].LoseMain(p.ProviderID) }},
		{name: "missing", reason: "to be confirmed by Get", happens: vanish},
		{name: "stray", reason: "an instance under another ID", happens: func(x *rig, _ *fleet.Proxy) { x.make("cloud", "b", "zone-b", 2) }},
		{name: "stray instead", reason: "the recorded one is missing", happens: func(x *rig, p *fleet.Proxy) {
			vanish(x, p)
			x.make("cloud", "b", "zone-b", 2)
		}},
		{name: "another attempt", reason: "the record may be old", happens: func(x *rig, p *fleet.Proxy) {
			vanish(x, p)
			x.make("cloud", "b", "", 2)
		}},
		{name: "a stranger in its place", reason: "ours is missing", happens: func(x *rig, p *fleet.Proxy) {
			vanish(x, p)
			x.backends["cloud"].Place(p.ProviderID, nil, 3128)
		}},
		{name: "strangers beside it", reason: "not ours", quiet: true, happens: func(x *rig, p *fleet.Proxy) {
			marks := provider.Marks{UID: p.UID, Namespace: "ns", Name: "b", Installation: "other", Cluster: "here", Attempt: 1}
			x.backends["cloud"].Place("zones/zone-b/instances/foreign", marks.ToMap(), 3128)
			x.backends["cloud"].Place("zones/zone-b/instances/bare", nil, 3128)
		}},
		{name: "another exit address on record", reason: "the status is to be mended",
			snapshot: func(p *fleet.Proxy) { p.ExitAddress = "192.0.2.1" }, happens: func(*rig, *fleet.Proxy) {}},
		{name: "another port on record", reason: "the status is to be mended",
			snapshot: func(p *fleet.Proxy) { p.Endpoint.Port++ }, happens: func(*rig, *fleet.Proxy) {}},
		{name: "missing while not provisioned", reason: "the reconciler asks at its own pace", snapshot: notProvisioned, happens: vanish, quiet: true},
		{name: "stopped while not provisioned", reason: "the reconciler asks at its own pace", snapshot: notProvisioned, happens: stop, quiet: true},
		{name: "running while not provisioned", reason: "it came up, perhaps after it was given up", snapshot: notProvisioned, happens: func(*rig, *fleet.Proxy) {}},
		{name: "running while draining", reason: "it is to be replaced", quiet: true,
			snapshot: both(notProvisioned, func(p *fleet.Proxy) { p.Draining = true }), happens: func(*rig, *fleet.Proxy) {}},
		{name: "running while deleting", reason: "the reconciler polls", quiet: true,
			snapshot: both(notProvisioned, func(p *fleet.Proxy) { p.Deleting = true }), happens: func(*rig, *fleet.Proxy) {}},
		{name: "stray while not provisioned", reason: "a stray is one at any time", snapshot: notProvisioned, happens: func(x *rig, p *fleet.Proxy) {
			stop(x, p)
			x.make("cloud", "b", "zone-b", 2)
		}},
		{name: "no attempt", reason: "there is nothing to compare with", quiet: true,
			snapshot: func(p *fleet.Proxy) { p.Attempt, p.ProviderID = 0, "" }, happens: vanish},
	} {
		t.Run(tc.name, func(t *testing.T) {
			observing(t, callTimeout, func(t *testing.T, x *rig) {
				x.create("a", "")
				var change []func(*fleet.Proxy)
				if tc.snapshot != nil {
					change = append(change, tc.snapshot)
				}
				p := x.create("b", "", change...)
				x.create("c", "zone-b")
				x.store.Apply(&fleet.Proxy{
					Key: types.NamespacedName{Namespace: "ns", Name: "external"}, UID: "e", Mode: v1alpha1.ModeExternal, Provisioned: true,
				})
				id := *p
				if id.ProviderID == "" {
					id.ProviderID = "zones/zone-a/instances/" + provider.NameFromUID(p.UID)
				}
				tc.happens(x, &id)
				want := []string{"b"}
				if tc.quiet {
					want = nil
				}
				x.start()
				x.wantWoken(tc.reason+", at the start", want...)
				x.pass(interval)
				x.wantWoken(tc.reason+", one interval later", want...)
			})
		})
	}
}

func TestAChangeIsNoticedWithinAnInterval(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		x.create("a", "")
		p := x.create("b", "")
		x.start()
		x.wantWoken("at the start")
		x.pass(interval / 2)
		x.backends["cloud"].Stop(p.ProviderID, "")
		x.wantWoken("before the list")
		x.pass(interval / 2)
		x.wantWoken("after the list", "b")
		x.backends["cloud"].Start(p.ProviderID)
		inst, err := x.All()[0].Provider.Get(x.t.Context(), provider.Ref{ID: p.ProviderID, UID: p.UID, Attempt: 1})
		x.must(err)
		next := *x.store.Get(p.Key)
		next.Endpoint.Host, next.ExitAddress = inst.IP, inst.ExitAddress
		x.store.Apply(&next)
		x.pass(interval)
		x.wantWoken("once the status has it")
	})
}

// listing makes the only provider's lists show what change makes of the instance of b.
func (x *rig) listing(change func(provider.Instance) []provider.Instance) {
	actual := x.entries[0].Provider
	fake := x.backends["cloud"].Fake("cloud", owner, provider.Window{})
	fake.ListFunc = func(ctx context.Context) (provider.Listing, error) {
		l, err := actual.ListByTag(ctx)
		var out []provider.Instance
		for _, i := range l.Instances {
			if i.Marks.Name == "b" {
				out = append(out, change(i)...)
			} else {
				out = append(out, i)
			}
		}
		l.Instances = out
		return l, err
	}
	x.entries = []registry.Handle{{Name: "cloud", Provider: fake}}
}

// TestEachPartOfASightCounts changes one thing at a time: a cloud that keeps the address of a stopped instance, say.
func TestEachPartOfASightCounts(t *testing.T) {
	type instance = provider.Instance
	one := func(change func(*instance)) func(instance) []instance {
		return func(i instance) []instance {
			change(&i)
			return []instance{i}
		}
	}
	for _, tc := range []struct {
		name  string
		shown func(instance) []instance
		woken bool
	}{
		{"the same", one(func(*instance) {}), false},
		{"another message", one(func(i *instance) { i.Message = "being moved" }), false},
		{"stopped under its address", one(func(i *instance) { i.State = provider.StateStopped }), true},
		{"another attempt under its address", one(func(i *instance) { i.Marks.Attempt++ }), true},
		{"another address", one(func(i *instance) { i.IP = "192.0.2.1" }), true},
		{"another port", one(func(i *instance) { i.Port++ }), true},
		{"another exit address", one(func(i *instance) { i.ExitAddress = "192.0.2.1" }), true},
		{"twice: two instances, or one that is not gone yet", func(i instance) []instance { return []instance{i, i} }, true},
		{"not at all", func(instance) []instance { return nil }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			observing(t, callTimeout, func(_ *testing.T, x *rig) {
				x.create("a", "")
				x.create("b", "")
				x.listing(tc.shown)
				x.start()
				var want []string
				if tc.woken {
					want = []string{"b"}
				}
				x.wantWoken(tc.name, want...)
			})
		})
	}
}

// TestUnreadScopesWakeNobodyAsMissing: what was not read is not missing. What is missing where was read, is.
func TestUnreadScopesWakeNobodyAsMissing(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		b := x.backends["cloud"]
		a1, a2 := x.create("a1", "zone-a"), x.create("a2", "zone-a")
		b1 := x.create("b1", "zone-b")
		x.create("b2", "zone-b")
		b.SetUnread("zone-a", true)
		x.start()
		x.wantWoken("a zone is unread")
		b.Vanish(a1.ProviderID)
		b.Vanish(b1.ProviderID)
		x.pass(interval)
		x.wantWoken("one is missing in each zone", "b1")
		if _, ok := x.observer.Seen("cloud", a2.UID, a2.ProviderID); ok {
			x.t.Error("what was not read counts as seen")
		}
		b.SetUnread("zone-b", true)
		x.pass(interval)
		x.wantWoken("everything is unread")
		b.SetUnread("zone-a", false)
		b.SetUnread("zone-b", false)
		x.pass(interval)
		x.wantWoken("everything is read", "a1", "b1")
	})
}

// TestScopesArePathElements: a scope is not a prefix of a name.
func TestScopesArePathElements(t *testing.T) {
	for _, tc := range []struct {
		scope string
		woken bool
	}{
		{"zone-a", false}, {"zones/zone-a", false}, {"zones/zone-a/", false}, {"zone", true}, {"zone-aa", true}, {"one-a", true}, {"projects/zone-a", true},
	} {
		t.Run(strings.ReplaceAll(tc.scope, "/", "_"), func(t *testing.T) {
			observing(t, callTimeout, func(_ *testing.T, x *rig) {
				x.create("a", "zone-a")
				fake := x.backends["cloud"].Fake("cloud", owner, provider.Window{})
				fake.ListFunc = func(context.Context) (provider.Listing, error) {
					return provider.Listing{Unread: []string{tc.scope}}, nil
				}
				x.entries = []registry.Handle{{Name: "cloud", Provider: fake}}
				x.start()
				if got := len(x.wakes()) > 0; got != tc.woken {
					t.Errorf("with %q unread: woken %v", tc.scope, got)
				}
			})
		})
	}
}

func TestADeletionInFlightWakes(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		x.entries = nil
		x.entry("cloud", providertest.BackendOptions{DeleteDelay: 2 * interval})
		p := x.create("a", "")
		x.must(x.All()[0].Provider.Delete(x.t.Context(), provider.Ref{ID: p.ProviderID, UID: p.UID, Attempt: 1}))
		x.start()
		x.wantWoken("somebody deletes it", "a")
	})
}
