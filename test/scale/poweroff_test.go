package scale

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// powerOff stops everything that runs.
func (w *world) powerOff() {
	for _, i := range w.backend.Instances() {
		w.backend.Stop(i.ID, "stopped by the host")
	}
}

// TestEverythingStopsAtOnce powers all instances off, once.
func TestEverythingStopsAtOnce(t *testing.T) {
	t.Parallel()
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.grow(fleetSize)
		w.pass(15 * time.Minute) // nothing of what follows is an early death
		limit := tenth(fleetSize)
		w.neverTwo()
		least := fleetSize
		w.always(func() { least = min(least, w.standing()) })
		start := time.Now()
		replacing := w.gauge(func(p *v1alpha1.Proxy) bool { return p.Status.ReplacingSince != nil })
		w.powerOff()

		noticed := w.until(3*time.Minute, "all are seen stopped", func() bool {
			return w.count(func(p *v1alpha1.Proxy) bool { return p.Status.Instance.Attempt == 1 && ready(p) }) == 0
		})
		took := noticed + w.until(30*time.Minute, "all run again", func() bool { return w.count(ready) == fleetSize })
		creates, gets := w.cloud.since(start, opCreate), w.cloud.since(start, opGet)
		t.Logf("seen after %s, all Ready after %s; at most %d of %d being replaced, at least %d standing; %d creations, %d deletions, %d reads of single instances (at most %d in one second)",
			noticed, took, replacing.max(), fleetSize, least, len(creates), len(w.cloud.since(start, opDelete)), len(gets), busiest(gets, time.Second))
		if replacing.max() > limit || least < fleetSize-limit {
			t.Errorf("more than %d were deleted at one time", limit)
		}
		if len(creates) != fleetSize || len(w.cloud.since(start, opDelete)) != fleetSize {
			t.Errorf("%d creations and %d deletions for %d instances", len(creates), len(w.cloud.since(start, opDelete)), fleetSize)
		}
	})
}

// TestInstancesDieYoung has a backend that powers every instance off as soon as it runs, for two hours.
func TestInstancesDieYoung(t *testing.T) {
	t.Parallel()
	const fleet = fleetSize / 5 // two hours of a whole fleet that waits are a long simulation
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.grow(fleet)
		w.pass(15 * time.Minute)
		limit := tenth(fleet)
		w.neverTwo()
		start := time.Now()
		replacing := w.gauge(func(p *v1alpha1.Proxy) bool { return p.Status.ReplacingSince != nil })
		least, cursed := fleet, true
		w.always(func() {
			least = min(least, w.standing())
			if cursed {
				w.powerOff()
			}
		})
		w.pass(2 * time.Hour)

		creates := w.cloud.since(start, opCreate)
		most := 0
		for uid, mine := range byUID(creates) {
			most = max(most, len(mine))
			wait := 30 * time.Second // after the first death nothing, after the second that, and so on
			for i := 2; i < len(mine); i++ {
				if gap := mine[i].began.Sub(mine[i-1].began); gap < wait {
					t.Errorf("creation %d of %s came %s after the one before, want at least %s", i+1, uid, gap, wait)
				}
				wait = min(2*wait, time.Hour)
			}
		}
		t.Logf("in 2 h: %d creations for %d Proxies, at most %d for one; at most %d being replaced, at least %d of %d standing; busiest minute %d creations",
			len(creates), fleet, most, replacing.max(), least, fleet, busiest(creates, time.Minute))
		if replacing.max() > limit || least < fleet-limit {
			t.Errorf("more than %d were replaced at one time", limit)
		}
		// 0, 0.5, 1, 2, 4 … 32 min and 1 h of waiting fit into two hours.
		if most > 10 || len(creates) > 10*limit {
			t.Errorf("%d creations for one Proxy, %d in all", most, len(creates))
		}

		cursed = false
		took := w.until(3*time.Hour, "all run again", func() bool { return w.count(ready) == fleet })
		t.Logf("backend mended: all Ready after %s", took)
	})
}
