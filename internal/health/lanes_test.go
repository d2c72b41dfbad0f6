package health

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestOldProbesMakeRoom(t *testing.T) {
	l := newLanes(2, 4)
	enter := func(lane laneName, at time.Duration) (*job, bool) {
		j := &job{lane: lane, began: at}
		return j, l.enter(j)
	}
	a, _ := enter(fast, 0)
	enter(fast, 0)
	if _, ok := enter(fast, yieldAge-1); ok {
		t.Error("a third young probe got in")
	}
	if at, ok := l.nextMove(true); !ok || at != yieldAge {
		t.Errorf("next move at %v, %v", at, ok)
	}
	if _, ok := enter(fast, yieldAge); !ok || l.inUse != [laneCount]int{2, 1} || a.lane != slow {
		t.Errorf("in use %v", l.inUse)
	}
	l.age(youngAge)
	if l.inUse != [laneCount]int{1, 2} {
		t.Errorf("in use %v after the second one got old", l.inUse)
	}
	if _, ok := enter(slow, youngAge); !ok {
		t.Error("no room for a slow probe")
	}
	if _, ok := enter(slow, youngAge); ok {
		t.Error("a slow probe took the room that is kept for old ones")
	}
	l.age(10 * youngAge)
	if l.inUse != [laneCount]int{0, 4} {
		t.Errorf("in use %v", l.inUse)
	}
	late, _ := enter(fast, 10*youngAge)
	l.age(20 * youngAge)
	if _, ok := l.nextMove(true); ok || late.lane != fast {
		t.Error("moved into a full lane")
	}
	l.leave(a)
	l.leave(late)
	if l.inUse != [laneCount]int{0, 3} || l.young.Len() != 0 {
		t.Errorf("in use %v, %d young", l.inUse, l.young.Len())
	}
}

// simulated stands for a fleet of which some are dead from a moment on. It notes how late live targets were probed.
type simulated struct {
	dead   map[string]bool
	diesAt time.Time

	mu       sync.Mutex
	from     time.Time
	lateness []time.Duration
}

func (s *simulated) Probe(ctx context.Context, t Target) Result {
	now := time.Now()
	dead := s.dead[t.Key.Name] && now.After(s.diesAt)
	s.mu.Lock()
	if !s.dead[t.Key.Name] && now.After(s.from) {
		s.lateness = append(s.lateness, now.Sub(t.Due))
	}
	s.mu.Unlock()
	h := fnv.New32()
	_, _ = h.Write([]byte(t.Key.Name))
	takes := 20*time.Millisecond + time.Duration(h.Sum32()%80)*time.Millisecond
	if dead {
		takes = t.Probe.Timeout
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if dead {
		return Result{Reason: v1alpha1.ReasonTimeout, Latency: takes}
	}
	return Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Latency: takes}
}

func (s *simulated) p99(t *testing.T) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lateness) < 1000 {
		t.Fatalf("only %d live probes", len(s.lateness))
	}
	slices.Sort(s.lateness)
	return s.lateness[len(s.lateness)*99/100]
}

// Ten thousand proxies at the default interval in simulated time: 30 % are black holes, dead for long or dying at once.
func TestDeadTargetsDoNotDelayLiveOnes(t *testing.T) {
	const (
		fleetSize = 10_000
		warmUp    = 3 * time.Minute
		minute    = time.Minute
	)
	run := func(t *testing.T, diesAfter time.Duration) time.Duration {
		var result time.Duration
		synctest.Test(t, func(t *testing.T) {
			s := &simulated{dead: map[string]bool{}, diesAt: time.Now().Add(diesAfter), from: time.Now().Add(warmUp)}
			store := fleet.NewStore()
			for i := range fleetSize {
				name := fmt.Sprintf("p%d", i)
				p := proxy(name, func(p *fleet.Proxy) { p.Probe.Interval = 30 * time.Second }, reported(fleet.Healthy))
				if i%10 < 3 {
					s.dead[name] = true
				}
				store.Apply(p)
			}
			e, err := New(Options{Store: store, Prober: s, Rand: rand.New(rand.NewPCG(3, 4))})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), warmUp+minute)
			defer cancel()
			if err := e.Start(ctx); err != nil {
				t.Fatal(err)
			}
			result = s.p99(t)
		})
		return result
	}
	t.Run("dead for long", func(t *testing.T) {
		if got := run(t, 0); got > time.Second {
			t.Errorf("99%% of live probes began within %v, want 1s", got)
		} else {
			t.Logf("p99 lateness %v", got)
		}
	})
	t.Run("dying at once", func(t *testing.T) {
		if got := run(t, warmUp); got > 2*time.Second {
			t.Errorf("99%% of live probes began within %v, want 2s", got)
		} else {
			t.Logf("p99 lateness %v", got)
		}
	})
}
