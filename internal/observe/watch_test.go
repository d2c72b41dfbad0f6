package observe_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestAnAddressIsWithdrawnWhenItIsTold: no list has come back and no pass been made when it is.
func TestAnAddressIsWithdrawnWhenItIsTold(t *testing.T) {
	type instance = provider.Instance
	draining := func(p *fleet.Proxy) { p.Provisioned, p.Draining = false, true }
	addressless := func(p *fleet.Proxy) { p.Provisioned, p.Endpoint.Host, p.Endpoint.Port = false, "", 0 }
	for _, tc := range []struct {
		name, reason string
		snapshot     func(*fleet.Proxy)
		told         func(*instance)
		gone         bool // the instance has been removed
		withdrawn    bool
		woken        bool
	}{
		{name: "as recorded", told: func(*instance) {}},
		{name: "another message", told: func(i *instance) { i.Message = "being moved" }},
		{name: "stopped", told: in(provider.StateStopped), withdrawn: true, woken: true},
		{name: "stopped under its address", reason: "some clouds keep it", told: func(i *instance) { i.State = provider.StateStopped }, withdrawn: true, woken: true},
		{name: "terminated", told: in(provider.StateTerminated), withdrawn: true, woken: true},
		{name: "being deleted", told: in(provider.StateDeleting), withdrawn: true, woken: true},
		{name: "failed", told: in(provider.StateFailed), withdrawn: true, woken: true},
		{name: "starting again", told: in(provider.StateProvisioning), withdrawn: true, woken: true},
		{name: "at another address", told: movedTo("192.0.2.1"), withdrawn: true, woken: true},
		{name: "at another port", told: func(i *instance) { i.Port++ }, withdrawn: true, woken: true},
		{name: "behind another exit", reason: "it serves where it did", told: func(i *instance) { i.ExitAddress = "192.0.2.1" }, woken: true},
		{name: "removed", told: func(*instance) {}, gone: true, withdrawn: true, woken: true},
		{name: "removed, last seen stopped", told: in(provider.StateStopped), gone: true, withdrawn: true, woken: true},
		{name: "removed, last seen unknown", told: in(provider.StateUnknown), gone: true, withdrawn: true, woken: true},
		{name: "unknown", reason: "it may serve", told: in(provider.StateUnknown), woken: true},
		{name: "removed while draining", reason: "it keeps its address and is probed until it is drained",
			snapshot: draining, told: func(*instance) {}, gone: true, withdrawn: true, woken: true},
		{name: "stopped while draining", snapshot: draining, told: in(provider.StateStopped), withdrawn: true},
		{name: "on its way up", reason: "the reconciler polls", snapshot: addressless, told: in(provider.StateProvisioning)},
		{name: "up", reason: "what was waited for", snapshot: addressless, told: func(*instance) {}, woken: true},
		{name: "removed with no attempt on record", reason: "there is nothing to compare with",
			snapshot: func(p *fleet.Proxy) { p.Attempt, p.ProviderID = 0, "" }, told: func(*instance) {}, gone: true},
		{name: "removed on its way up", snapshot: addressless, told: in(provider.StateProvisioning), gone: true, woken: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			watching(t, false, func(_ *testing.T, x *rig, w *watched) {
				p := x.create("a", "")
				inst := x.instance(p)
				if tc.snapshot != nil {
					next := *p
					tc.snapshot(&next)
					x.store.Apply(&next)
				}
				x.create("b", "")
				x.start()
				if w.tell(inst); tc.snapshot == nil {
					x.wantWoken("told as recorded")
				}
				x.wakes()
				if tc.gone {
					w.tellGone(inst, tc.told)
				} else {
					w.tell(inst, tc.told)
				}
				var want []string
				if tc.woken {
					want = []string{"a"}
				}
				x.wantWoken(tc.reason, want...)
				if got := x.store.Get(p.Key).Gone; got != tc.withdrawn {
					t.Errorf("%s: withdrawn %v, want %v", tc.reason, got, tc.withdrawn)
				}
				if x.store.Get(types.NamespacedName{Namespace: "ns", Name: "b"}).Gone {
					t.Error("another one is withdrawn, too")
				}
			})
		})
	}
}

// TestWhatIsToldAsRecordedIsBack, and what is told as Unknown is where it was: neither offered again nor withdrawn.
func TestWhatIsToldAsRecordedIsBack(t *testing.T) {
	watching(t, false, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		for _, step := range []struct {
			name string
			told func(*provider.Instance)
			gone bool
		}{
			{"unknown", in(provider.StateUnknown), false},
			{"stopped", in(provider.StateStopped), true},
			{"unknown after it stopped", in(provider.StateUnknown), true},
			{"starting", in(provider.StateProvisioning), true},
			{"elsewhere", movedTo("192.0.2.1"), true},
			{"unknown after it was elsewhere", in(provider.StateUnknown), true},
			{"back", in(provider.StateRunning), false},
			{"unknown again", in(provider.StateUnknown), false},
		} {
			w.tell(inst, step.told)
			x.wantGone(step.name, p, step.gone)
		}
		w.tellGone(inst)
		x.wantGone("removed", p, true)
		w.tell(inst)
		x.wantGone("there after all", p, false)
		w.tell(inst, movedTo("192.0.2.1"))
		next := *x.store.Get(p.Key)
		next.Endpoint.Host = "192.0.2.1"
		x.store.Apply(&next)
		x.wantGone("elsewhere, and on record there", p, false)
	})
}

// TestWhatIsToldOfOthersWithdrawsNothing, even where it names the address on record.
func TestWhatIsToldOfOthersWithdrawsNothing(t *testing.T) {
	type instance = provider.Instance
	for _, tc := range []struct {
		name, reason string
		told         func(*instance)
		woken        bool // by its end
		seen         bool // wakes also while it is there
	}{
		{name: "an earlier attempt", reason: "its end is what a creation waits for", told: func(i *instance) { i.Marks.Attempt = 1 }, woken: true},
		{name: "a later attempt", reason: "the record may be old", told: func(i *instance) { i.Marks.Attempt = 3 }, woken: true, seen: true},
		{name: "a stray", reason: "its end is what a deletion waits for", told: func(i *instance) { i.ID = "zones/zone-b/instances/x" }, woken: true},
		{name: "another UID", told: func(i *instance) { i.Marks.UID = "another" }},
		{name: "another name", told: func(i *instance) { i.Marks.Name = "nobody" }},
		{name: "another namespace", told: func(i *instance) { i.Marks.Namespace = "elsewhere" }},
		{name: "no marks", told: func(i *instance) { i.Marks = provider.Marks{} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			watching(t, false, func(_ *testing.T, x *rig, w *watched) {
				p := x.make("cloud", "a", "", 2)
				x.store.Apply(p)
				inst := x.instance(p)
				x.start()
				for _, state := range []provider.State{provider.StateRunning, provider.StateStopped} {
					w.tell(inst, tc.told, in(state))
					if woken := len(x.wakes()) > 0; woken != tc.seen {
						t.Errorf("%s: %s wakes: %v", tc.reason, state, woken)
					}
				}
				w.tellGone(inst, tc.told)
				if woken := len(x.wakes()) > 0; woken != tc.woken {
					t.Errorf("%s: its end wakes: %v, want %v", tc.reason, woken, tc.woken)
				}
				x.wantGone(tc.name, p, false)
				w.tellGone(inst)
				w.tell(inst, tc.told)
				x.wantGone(tc.name+" is there, ours is not", p, true)
			})
		})
	}
}

// TestAnotherProviderIsNotBelieved: an instance of the same marks may be in two projects, and only one is on record.
func TestAnotherProviderIsNotBelieved(t *testing.T) {
	watching(t, false, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		next := *p
		next.Provider = "second"
		x.store.Apply(&next)
		x.start()
		w.tellGone(inst)
		x.wantWoken("told by the entry from before")
		x.wantGone("told by the entry from before", p, false)
	})
}

// TestDecoratorsHideNoWatch: the observer gets providers as everybody does.
func TestDecoratorsHideNoWatch(t *testing.T) {
	watching(t, false, func(_ *testing.T, x *rig, w *watched) {
		x.entries = []registry.Handle{{Name: "cloud", Provider: instrument.WithTracing(instrument.WithMetrics(
			instrument.WithGuard(w, "cloud", clock.RealClock{}), "cloud", clock.RealClock{}, unmetered{}), "cloud")}}
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		w.tellGone(inst)
		x.wantGone("decorated", p, true)
	})
}

type unmetered struct{}

func (unmetered) ProviderRequest(string, string, string, time.Duration) {}
