package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestMatrixOnKVM is TestMatrix with the provider kvm in front of libvirt daemons in memory.
func TestMatrixOnKVM(t *testing.T) {
	points, whole := matrix(t, onKVM())
	for _, m := range mutating {
		if whole && points[m.name] == 0 {
			t.Errorf("no death around %q", m.name)
		}
	}
}

// TestAnythingOnKVM is TestAnything with the provider kvm. Restarts of hosts are among what happens.
func TestAnythingOnKVM(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		happen(t, onKVM(), visibility{name: "at once", chance: true, bySteps: true})
	})
}

// TestSameSeedSameRunOnKVM: without this, no failure could be replayed.
func TestSameSeedSameRunOnKVM(t *testing.T) {
	t.Parallel()
	on := onKVM()
	for _, vis := range on.visible {
		var told [2]string
		for i := range told {
			w := newWorld(on, vis, 3)
			w.killAt, w.when = 4, unanswered
			err := w.tell(again("zone edit during delete"))
			told[i] = fmt.Sprint(err, w.effects, strings.Join(w.backend.history(), "\n"))
			w.close()
		}
		if told[0] != told[1] {
			t.Errorf("%s: two runs differ:\n%s\n%s", vis.name, told[0], told[1])
		}
	}
}

// newKVM returns a world at whose hypervisors more may happen.
func newKVM(t *testing.T, arrange func(*world, *hypervisors)) *world {
	t.Helper()
	on := onKVM()
	w := newWorld(on, on.visible[2], crashSeed(t))
	arrange(w, w.backend.(*hypervisors))
	return w
}

// sampleOf says that one in n is run, which ones depends on the seed; fewer with the race detector, see matrix.
func sampleOf(n uint64) uint64 {
	if raceEnabled {
		return 9 * n
	}
	return n
}

// TestCallsArriveAmidOthersOnKVM: a call whose sender has died arrives in the midst of what another operator does, between two
// of its calls.
func TestCallsArriveAmidOthersOnKVM(t *testing.T) {
	t.Parallel()
	seed, sample := crashSeed(t), sampleOf(2)
	for _, f := range flows() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			normal := newKVM(t, func(*world, *hypervisors) {})
			defer normal.close()
			if err := normal.tell(again(f.name)); err != nil {
				t.Fatal(err)
			}
			for i, name := range normal.effects {
				if strings.HasPrefix(name, "write") {
					continue
				}
				for amid := 1; amid <= 7; amid++ {
					if (amid > 2 || raceEnabled) && (uint64(i+amid)+seed)%sample > 0 {
						continue
					}
					w := newKVM(t, func(w *world, c *hypervisors) { w.killAt, w.when, c.amid = i, unanswered, amid })
					err := w.tell(again(f.name))
					if err != nil {
						t.Errorf("death at effect %d (%s), which arrives before the %dth effect after it: %v\neffects: %q\n%s",
							i, name, amid, err, w.effects, strings.Join(w.backend.history(), "\n"))
					}
					if w.close(); err != nil {
						return
					}
				}
			}
		})
	}
}

// TestPausesOnKVM: a process is paused between two calls while another one takes over. Then it awakes and goes on with what it
// believes.
func TestPausesOnKVM(t *testing.T) {
	t.Parallel()
	seed, sample := crashSeed(t), sampleOf(2)
	pauses := []struct {
		name  string
		until func(w *world, begin time.Time, attempt int64) bool
	}{
		{"20 s", func(w *world, begin time.Time, _ int64) bool {
			return !w.clock.Now().Before(begin.Add(20 * time.Second))
		}},
		{"100 s", func(w *world, begin time.Time, _ int64) bool {
			return !w.clock.Now().Before(begin.Add(100 * time.Second))
		}},
		{"until the next attempt is there", func(w *world, _ time.Time, attempt int64) bool {
			return slices.ContainsFunc(w.backend.Instances(), func(i providertest.Leftover) bool { return i.Marks.Attempt > attempt })
		}},
		{"until all is over", func(*world, time.Time, int64) bool { return false }},
	}
	for _, f := range flows() {
		if f.restored || strings.HasPrefix(f.name, "loss of leadership") {
			continue // an attempt may come twice there, or a call outlive its deadline
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			count := &stall{at: -1}
			normal := newKVM(t, func(_ *world, c *hypervisors) { c.stall = count })
			defer normal.close()
			if err := normal.tell(again(f.name)); err != nil {
				t.Fatal(err)
			}
			for i := range count.calls {
				for j, p := range pauses {
					if (uint64(i+j)+seed)%sample > 0 {
						continue
					}
					w := newKVM(t, func(_ *world, c *hypervisors) { c.stall = &stall{at: i, until: p.until} })
					err := w.tell(again(f.name))
					if err != nil {
						t.Errorf("pause after call %d, %s: %v\neffects: %q\n%s", i, p.name, err, w.effects, strings.Join(w.backend.history(), "\n"))
					}
					if w.close(); err != nil {
						return
					}
				}
			}
		})
	}
}
