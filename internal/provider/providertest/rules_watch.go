package providertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// told keeps the last word that a watch had on each ID.
type told struct {
	mu   sync.Mutex
	last map[string]provider.Change
	ever map[string]bool // by UID
	over chan struct{}   // closed when Watch has returned
	stop context.CancelFunc
}

func (w *told) of(id string) (provider.Change, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.last[id]
	return c, ok
}

// watch begins to watch p, until the rule ends at the latest.
func (s *suite) watch(p provider.Provider) *told {
	s.Helper()
	watcher, ok := instrument.As[provider.Watcher](p)
	if !ok {
		s.Skipf("the provider does not tell of changes")
	}
	ctx, stop := context.WithCancel(s.ctx)
	w := &told{last: map[string]provider.Change{}, ever: map[string]bool{}, over: make(chan struct{}), stop: stop}
	s.Cleanup(func() { stop(); <-w.over })
	go func() {
		defer close(w.over)
		watcher.Watch(ctx, func(c provider.Change) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.last[c.Instance.ID] = c
			w.ever[c.Instance.Marks.UID] = true
		})
	}()
	return w
}

// tells waits until the watch's last word on the instance is as wanted: for Limit in real time, which is what a watch runs
// on, and for Polls turns of the backend.
func (s *suite) tells(w *told, id, what string, wanted func(provider.Change) bool) {
	s.Helper()
	complaint := ""
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i, deadline := 0, time.Now().Add(s.env.Limit); i < s.env.Polls || time.Now().Before(deadline); i++ {
		c, ok := w.of(id)
		switch {
		case !ok:
			complaint = "it told nothing"
		case !wanted(c):
			complaint = fmt.Sprintf("it told %s, gone %v", c.Instance.State, c.Gone)
		default:
			return
		}
		if err := s.env.Wait(s.ctx); err != nil {
			s.Fatalf("waiting: %v", err)
		}
		<-tick.C
	}
	s.Fatalf("the watch did not tell that %s %s: %s", id, what, complaint)
}

func watchRules() []Rule {
	return []Rule{
		{"watch-tells-what-is-there", "Watch tells of the instances that it finds, as Get shows them.", func(s *suite) {
			ref, inst := s.running(s.request(), 2)
			w := s.watch(s.restart())
			s.tells(w, ref.ID, "is there as Get shows it", func(c provider.Change) bool {
				got := c.Instance
				return !c.Gone && got.Marks == inst.Marks && got.Identity == inst.Identity && got.CreatedAt.Equal(inst.CreatedAt) &&
					got.State == inst.State && got.IP == inst.IP && got.Port == inst.Port && got.ExitAddress == inst.ExitAddress
			})
		}},
		{"watch-tells-what-comes", "Watch tells when an instance that was created since runs.", func(s *suite) {
			w := s.watch(s.p)
			ref, inst := s.running(s.request(), 1)
			s.tells(w, ref.ID, "runs", func(c provider.Change) bool {
				return !c.Gone && c.Instance.State == provider.StateRunning && c.Instance.IP == inst.IP && c.Instance.Marks == inst.Marks
			})
		}},
		{"watch-tells-what-ends", "Watch tells when an instance no longer runs, although it still exists.", func(s *suite) {
			end := s.env.Terminate
			if end == nil {
				end = s.env.Stop
			}
			s.need(end != nil, "Stop and Terminate")
			w := s.watch(s.p)
			ref, _ := s.running(s.request(), 1)
			s.tells(w, ref.ID, "is there", func(c provider.Change) bool { return c.Instance.State == provider.StateRunning })
			end(ref.ID)
			s.tells(w, ref.ID, "has ended", func(c provider.Change) bool { return c.Gone || c.Instance.State != provider.StateRunning })
		}},
		{"watch-tells-what-is-gone", "Watch tells when an instance has been removed, by whomever, and whose it was.", func(s *suite) {
			s.need(s.env.Vanish != nil, "Vanish")
			w := s.watch(s.p)
			vanished, inst := s.running(s.request(), 1)
			deleted, _ := s.running(s.request(), 3)
			for _, ref := range []provider.Ref{vanished, deleted} {
				s.tells(w, ref.ID, "is there", func(c provider.Change) bool { return c.Instance.State == provider.StateRunning })
			}
			s.env.Vanish(vanished.ID)
			s.deleteAndWait(deleted)
			s.tells(w, vanished.ID, "is gone", func(c provider.Change) bool { return c.Gone && c.Instance.Marks == inst.Marks })
			s.tells(w, deleted.ID, "is gone", func(c provider.Change) bool { return c.Gone && c.Instance.Marks.Attempt == 3 })
		}},
		{"watch-tells-only-of-own", "Watch leaves out other installations and other clusters.", func(s *suite) {
			w := s.watch(s.p)
			for _, otherCluster := range []bool{false, true} {
				s.foreign(s.request(), otherCluster)
			}
			own, _ := s.running(s.request(), 1)
			s.tells(w, own.ID, "is there", func(c provider.Change) bool { return !c.Gone })
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.last) != 1 || len(w.ever) != 1 {
				s.Errorf("it told of %d IDs, one of them is its own", len(w.last))
			}
		}},
		{"watch-ends-with-its-context", "Watch returns promptly when its context ends.", func(s *suite) {
			w := s.watch(s.p)
			ref, _ := s.running(s.request(), 1)
			s.tells(w, ref.ID, "is there", func(c provider.Change) bool { return !c.Gone })
			w.stop()
			select {
			case <-w.over:
			case <-time.After(s.env.Limit):
				s.Errorf("it did not return within %s", s.env.Limit)
			}
		}},
	}
}
