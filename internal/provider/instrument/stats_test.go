package instrument_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// refusals keeps what a guard tells of calls that it turns away.
type refusals struct {
	mu   sync.Mutex
	told []string
}

func (r *refusals) CallRefused(name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, name+" "+why)
}

func (r *refusals) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.told, want) {
		t.Errorf("%s: refused %q, want %q", when, r.told, want)
	}
	r.told = nil
}

func TestStatsAndRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: &plain{}, held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		r := &refusals{}
		g := instrument.WithGuard(z, "exits", clock.RealClock{}, instrument.OnRefusal(r))
		want := func(when string, want instrument.Stats) {
			t.Helper()
			if got, ok := instrument.StatsOf(g); !ok || got != want {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		get := func(id string) error {
			_, err := g.Get(t.Context(), provider.Ref{ID: id})
			return err
		}
		want("at the start", instrument.Stats{})

		release := z.hold("a")
		go func() { _ = get("a/1") }()
		synctest.Wait()
		want("a call is under way", instrument.Stats{InFlight: 1})
		_ = get("a/2") // it has not answered yet: one at a time
		r.expect(t, "beside it", "exits busy")
		release()
		synctest.Wait()
		want("it has ended", instrument.Stats{})

		z.errs["a"] = provider.Wrap(provider.ErrDenied, "get", "exits", "a", errors.New("no"))
		z.errs["b"] = provider.Wrap(provider.ErrTransient, "get", "exits", "b", errors.New("silence")).WithReason(provider.ReasonUnreachable)
		for _, id := range []string{"a/1", "b/1"} {
			_ = get(id)
		}
		want("two gates are shut", instrument.Stats{Denied: 1, Unreachable: 1})
		r.expect(t, "those that shut them were made")
		for _, id := range []string{"a/1", "b/1", "b/2", "c/1"} {
			_ = get(id)
		}
		r.expect(t, "at shut gates", "exits denied", "exits unreachable", "exits unreachable")

		z.errs["list"] = z.errs["a"]
		_, _ = g.ListByTag(t.Context())
		want("lists are denied, too", instrument.Stats{Denied: 2, Unreachable: 1})
		_ = get("c/1")
		r.expect(t, "while lists are denied nothing else is asked", "exits denied")

		retired := instrument.Retire(g)
		_ = get("d/1")
		_, _ = g.Plan(t.Context(), provider.CreateRequest{})
		r.expect(t, "while it is retired", "exits retired", "exits retired")
		retired.Resume()

		clear(z.errs)
		pass(time.Hour)
		_, _ = g.ListByTag(t.Context())
		for _, id := range []string{"a/1", "b/1"} {
			if err := get(id); err != nil {
				t.Error(err)
			}
		}
		want("all is well", instrument.Stats{})
	})
	if _, ok := instrument.StatsOf(&plain{}); ok {
		t.Error("a provider without a guard has stats")
	}
}
