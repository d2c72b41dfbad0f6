package observe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// seen is the state in which p's instance was last seen, "" when it was not.
func (x *rig) seen(p *fleet.Proxy) provider.State {
	inst, ok := x.observer.Seen(p.Provider, p.UID, p.ProviderID)
	if ok && inst.ID != p.ProviderID || !ok && inst.State != "" {
		x.t.Errorf("seen %v: %+v", ok, inst)
	}
	return inst.State
}

func (x *rig) wantSeen(when string, p *fleet.Proxy, want provider.State) {
	x.t.Helper()
	if got := x.seen(p); got != want {
		x.t.Errorf("%s: seen as %q, want %q", when, got, want)
	}
}

// TestTheLatestWordCounts: what was told after the list was asked for. A pass that was woken must not find the sight that
// is no longer true, and what is gone is left to a Get.
func TestTheLatestWordCounts(t *testing.T) {
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		x.wantSeen("listed", p, provider.StateRunning)
		w.tell(inst, in(provider.StateStopped))
		x.wantSeen("told stopped", p, provider.StateStopped)
		w.tell(inst)
		x.wantSeen("told running again", p, provider.StateRunning)
		w.tellGone(inst)
		x.wantSeen("told gone", p, "")
		w.tell(inst, func(i *provider.Instance) { i.Identity = "another of the name" })
		if got, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); !ok || got.Identity != "another of the name" {
			x.t.Errorf("told anew: seen %v: %+v", ok, got)
		}
		w.tell(inst, func(i *provider.Instance) { i.Marks.UID = "another" })
		x.wantSeen("somebody else's is told in its place", p, "")
		x.pass(interval)
		x.wantSeen("listed since", p, provider.StateRunning)
	})
}

// TestAListAskedForLaterCountsMore, and one asked for before does not, however late its answer.
func TestAListAskedForLaterCountsMore(t *testing.T) {
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		held := make(chan struct{})
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: held} })
		x.pass(interval - time.Second)
		w.tell(inst, in(provider.StateStopped))
		x.pass(time.Second) // the list is asked for, and does not answer
		w.tell(inst, in(provider.StateProvisioning))
		x.wantSeen("before the answer", p, provider.StateProvisioning)
		close(held)
		synctest.Wait()
		x.wantSeen("after the answer", p, provider.StateProvisioning)
		x.pass(interval)
		x.wantSeen("after the next one", p, provider.StateRunning)
	})
}

// TestNothingIsSeenWithoutAList: what is told is a hint, and does not say what else there is.
func TestNothingIsSeenWithoutAList(t *testing.T) {
	watching(t, false, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		w.tell(inst)
		x.wantSeen("told only", p, "")
	})
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Err: provider.ErrTransient} })
		x.pass(2*interval + time.Second)
		w.tell(inst, in(provider.StateStopped))
		x.wantSeen("told while lists fail for long", p, "")
	})
}

func TestAStrayThatIsToldGoneIsNone(t *testing.T) {
	watching(t, true, func(t *testing.T, x *rig, w *watched) {
		a := x.create("a", "zone-a")
		stray := x.make("cloud", "a", "zone-b", 2)
		inst := x.instance(stray)
		x.start()
		if got := x.observer.Strays("cloud", a.UID, a.ProviderID); len(got) != 1 {
			t.Fatalf("strays %v", got)
		}
		w.tell(inst, in(provider.StateDeleting))
		if got := x.observer.Strays("cloud", a.UID, a.ProviderID); len(got) != 1 || got[0].State != provider.StateDeleting {
			t.Errorf("strays %v, one was told as being deleted", got)
		}
		w.tellGone(inst)
		if got := x.observer.Strays("cloud", a.UID, a.ProviderID); got != nil {
			t.Errorf("strays %v, it was told gone", got)
		}
		x.wantSeen("of the stray's end", a, provider.StateRunning)
	})
}

// TestWhatIsToldIsForgotten with the next list, or once no list can make anything of it.
func TestWhatIsToldIsForgotten(t *testing.T) {
	const n = 50
	told := func(x *rig, when string, want int) {
		x.t.Helper()
		if got := x.observer.Told(); got != want {
			x.t.Errorf("%s: %d changes are kept, want %d", when, got, want)
		}
	}
	of := func(i int) func(*provider.Instance) {
		return func(inst *provider.Instance) { inst.ID = fmt.Sprintf("zones/zone-a/instances/%d", i) }
	}
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		for range n {
			w.tell(inst)
			told(x, "told as listed", 0)
			w.tell(inst, in(provider.StateStopped))
			told(x, "told as another", 1)
		}
		w.tell(inst)
		told(x, "told as listed after all", 0)
		for i := range n {
			w.tell(inst, of(i))
			w.tellGone(inst, of(i))
		}
		told(x, "instances that came and went", n)
		x.pass(interval)
		told(x, "after the next list", 0)
		for i := range n {
			w.tellGone(inst, of(i))
		}
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Err: provider.ErrDenied} })
		x.pass(2 * interval)
		told(x, "while the list may still count", n)
		x.pass(interval)
		told(x, "while lists fail", 0)
		w.tellGone(inst)
		x.mu.Lock()
		x.entries = nil
		x.mu.Unlock()
		x.pass(4 * interval)
		told(x, "the entry is gone", 0)
	})
}

// TestEachPartOfASightIsToldAnew: whatever a pass may look at counts as another sight than the listed one.
func TestEachPartOfASightIsToldAnew(t *testing.T) {
	type instance = provider.Instance
	for what, change := range map[string]func(*instance){
		"state":        func(i *instance) { i.State = provider.StateUnknown },
		"address":      movedTo("192.0.2.1"),
		"port":         func(i *instance) { i.Port++ },
		"exit address": func(i *instance) { i.ExitAddress = "192.0.2.1" },
		"attempt":      ofAttempt(7),
		"spec":         func(i *instance) { i.Marks.Spec = "v1-1" },
		"identity":     func(i *instance) { i.Identity = "another" },
	} {
		watching(t, true, func(t *testing.T, x *rig, w *watched) {
			p := x.create("a", "")
			inst := x.instance(p)
			x.start()
			want := inst
			change(&want)
			w.tell(inst, change)
			if got, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); !ok || got != want {
				t.Errorf("%s: seen %v: %+v", what, ok, got)
			}
		})
	}
}
