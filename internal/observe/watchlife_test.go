package observe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func (x *rig) wantWatches(when string, w *watched, begun, ended int32) {
	x.t.Helper()
	if b, e := w.begun.Load(), w.ended.Load(); b != begun || e != ended {
		x.t.Errorf("%s: %d watches began and %d ended, want %d and %d", when, b, e, begun, ended)
	}
}

func TestOneWatchForAsLongAsTheEntryStays(t *testing.T) {
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		x.entry("second", providertest.BackendOptions{}) // cannot be watched
		x.start()
		x.wantWatches("at the start", w, 1, 0)
		x.pass(10 * interval)
		x.wantWatches("ten intervals later", w, 1, 0)
		if cloud, second := x.lists("cloud"), x.lists("second"); cloud != 11 || second != 11 {
			x.t.Errorf("listed %d and %d times in ten intervals", cloud, second)
		}
		x.mu.Lock()
		x.entries = x.entries[1:]
		x.mu.Unlock()
		x.pass(interval)
		x.wantWatches("the entry is gone", w, 1, 1)
		x.mu.Lock()
		x.entries = append(x.entries, registry.Handle{Name: "cloud", Provider: w})
		x.mu.Unlock()
		x.pass(interval)
		x.wantWatches("it is back", w, 2, 1)
	})
}

// TestALateEntryIsWatched from the next interval on.
func TestALateEntryIsWatched(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		x.start()
		x.entry("late", providertest.BackendOptions{})
		w := x.watched("late")
		p := x.make("late", "a", "", 1)
		x.store.Apply(p)
		inst := x.instance(p)
		x.pass(interval)
		w.tellGone(inst)
		x.wantGone("told by the late entry", p, true)
	})
}

// TestARebuiltEntryIsWatchedAnew: the old client is closed before long, and may speak of another backend.
func TestARebuiltEntryIsWatchedAnew(t *testing.T) {
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		p := x.create("a", "")
		inst := x.instance(p)
		x.start()
		linger := make(chan struct{})
		w.last = func(tell func(provider.Change)) {
			<-linger // a client that takes its time to give up
			tell(provider.Change{Instance: inst, Gone: true})
		}
		next := &watched{Provider: w.Provider, changes: make(chan provider.Change)}
		x.mu.Lock()
		x.entries = []registry.Handle{{Name: "cloud", Provider: next}}
		x.mu.Unlock()
		x.pass(interval)
		x.wantWatches("the old one, that takes its time,", w, 1, 0)
		x.wantWatches("the new one, that does not wait for it,", next, 1, 0)
		next.tell(inst)
		x.wakes()
		close(linger)
		synctest.Wait()
		x.wantWatches("the old one", w, 1, 1)
		x.wantGone("told by the old one", p, false)
		x.wantWoken("told by the old one")
		if got := x.observer.Told(); got != 0 {
			x.t.Errorf("%d changes are kept of what the old one told", got)
		}
		next.tellGone(inst)
		x.wantGone("told by the new one", p, true)
	})
}

// TestStartReturnsAfterItsWatches: whoever closes the providers once Start has returned closes none in use.
func TestStartReturnsAfterItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := providertest.NewFake("slow", owner, provider.Window{Clock: clock.RealClock{}})
		w := &watched{Provider: fake, changes: make(chan provider.Change)}
		w.last = func(func(provider.Change)) { <-time.After(time.Second) }
		rebuilt := &watched{Provider: fake, changes: make(chan provider.Change)}
		rebuilt.last = func(func(provider.Change)) { <-time.After(5 * time.Minute) }
		x := &rig{entries: []registry.Handle{{Name: "slow", Provider: rebuilt}}}
		o := observe.New(observe.Options{
			Providers: x, Store: fleet.NewStore(), Clock: clock.RealClock{},
			Interval: interval, CallTimeout: time.Hour, Wake: func(types.NamespacedName) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.entries = []registry.Handle{{Name: "slow", Provider: w}}
		})
		time.AfterFunc(2*interval, cancel)
		if err := o.Start(ctx); err != nil || w.ended.Load() != 1 || rebuilt.ended.Load() != 1 {
			t.Errorf("returned %v, the watch had ended %d times, the one before it %d times", err, w.ended.Load(), rebuilt.ended.Load())
		}
	})
}
