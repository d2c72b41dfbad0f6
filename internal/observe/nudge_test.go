package observe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// exchange makes entries the configured ones.
func (x *rig) exchange(entries ...registry.Handle) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries = entries
}

// TestANudgeTakesOverAtOnce: what was rebuilt or added is watched and listed without waiting for the interval, what was taken
// out is not watched any more, and what is as it was is left alone.
func TestANudgeTakesOverAtOnce(t *testing.T) {
	watching(t, true, func(_ *testing.T, x *rig, w *watched) {
		x.entry("second", providertest.BackendOptions{})
		second := x.All()[1]
		x.start()
		x.pass(interval / 2)
		next := &watched{Provider: w.Provider, changes: make(chan provider.Change)}
		x.exchange(registry.Handle{Name: "cloud", Provider: next}, second)
		x.entry("third", providertest.BackendOptions{})
		for range 3 { // they are one
			x.observer.Nudge()
		}
		synctest.Wait()
		x.wantWatches("the old client", w, 1, 1)
		x.wantWatches("the new one", next, 1, 0)
		for name, want := range map[string]int{"cloud": 2, "second": 1, "third": 1} {
			if got := x.lists(name); got != want {
				x.t.Errorf("%s was listed %d times, want %d", name, got, want)
			}
		}
		x.exchange(second)
		x.observer.Nudge()
		synctest.Wait()
		x.wantWatches("the removed one", next, 1, 1)
		x.pass(interval / 2)
		if got := x.lists("second"); got != 2 {
			x.t.Errorf("a nudge has moved the interval: listed %d times", got)
		}
	})
}

// TestANudgeBeforeTheStartIsKept.
func TestANudgeBeforeTheStartIsKept(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		x.observer.Nudge()
		x.observer.Nudge()
		x.start()
		if got := x.lists("cloud"); got != 1 {
			x.t.Errorf("listed %d times", got)
		}
	})
}

// TestAListOfAnOldClientDoesNotCount: neither does it hold up the new one's, nor does what it says come after that.
func TestAListOfAnOldClientDoesNotCount(t *testing.T) {
	observing(t, time.Hour, func(_ *testing.T, x *rig) {
		p := x.create("a", "")
		old := &slow{Provider: x.All()[0].Provider, release: make(chan struct{})}
		x.exchange(registry.Handle{Name: "cloud", Provider: old})
		fast := old.Provider
		x.start() // the old client's list hangs
		x.exchange(registry.Handle{Name: "cloud", Provider: fast})
		x.observer.Nudge()
		synctest.Wait()
		if _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); !ok {
			x.t.Error("the list of the new client waits for that of the old one")
		}
		close(old.release) // with an empty answer
		synctest.Wait()
		if _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); !ok {
			x.t.Error("the old client's list has replaced the new one's")
		}
		x.wantWoken("by the old client's list")
		x.exchange()
		x.observer.Nudge()
		synctest.Wait()
		if _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); ok {
			x.t.Error("what a removed entry showed is still told")
		}
	})
}

// slow is a client whose lists hang, and then say that there is nothing.
type slow struct {
	provider.Provider
	release chan struct{}
}

func (s *slow) ListByTag(context.Context) (provider.Listing, error) {
	<-s.release
	return provider.Listing{}, nil
}
