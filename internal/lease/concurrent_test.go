package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// together runs n calls of f that start at the same moment and waits for them.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			f(i)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
}

func TestManyTakersOfOneProxyAroundItsExpiry(t *testing.T) {
	const takers = 200
	f := newFixture(t)
	key := f.put("a", withCap(1))
	old := f.acquire(t, ask(""))
	take := func() (granted int64) {
		var count atomic.Int64
		together(takers, func(int) {
			l, err := f.ledger.Acquire(context.Background(), ask(""))
			var refused *NoMatchError
			switch {
			case err == nil && l.Live == 1:
				count.Add(1)
			case err == nil || !errors.As(err, &refused) || refused.AtCapacity != 1:
				t.Errorf("Acquire = %+v, %v", l, err)
			}
		})
		return count.Load()
	}
	for _, step := range []struct {
		at   time.Duration
		want int64
	}{{-time.Millisecond, 0}, {0, 1}, {time.Millisecond, 0}} {
		f.clock.SetTime(old.ExpiresAt.Add(step.at))
		if got := take(); got != step.want {
			t.Errorf("%v after expiry %d takers were granted, want %d", step.at, got, step.want)
		}
		if got := f.ledger.LiveOn(key); got != 1 {
			t.Errorf("%v after expiry %d leases are live, want 1", step.at, got)
		}
	}
}

// The clock passes the expiry while the takers are at it: still nobody gets in twice.
func TestTakersRaceWithTheClock(t *testing.T) {
	for range 20 {
		f := newFixture(t)
		f.put("a", withCap(1))
		f.acquire(t, ask(""))
		var granted atomic.Int64
		together(51, func(i int) {
			if i == 50 {
				f.clock.Step(time.Minute)
				return
			}
			if _, err := f.ledger.Acquire(context.Background(), ask("")); err == nil {
				granted.Add(1)
			}
		})
		if got := granted.Load(); got > 1 {
			t.Fatalf("%d takers were granted, want at most 1", got)
		}
	}
}

func TestWithdrawalIsExactUnderAcquisitions(t *testing.T) {
	for range 20 {
		f := newFixture(t)
		key := f.put("a")
		var granted, atWithdrawal atomic.Int64
		together(51, func(i int) {
			if i == 50 {
				atWithdrawal.Store(int64(f.ledger.Withdraw(key)))
				return
			}
			if _, err := f.ledger.Acquire(context.Background(), ask("")); err == nil {
				granted.Add(1)
			}
		})
		if granted.Load() != atWithdrawal.Load() {
			t.Fatalf("%d were granted, but Withdraw counted %d: somebody got in after it", granted.Load(), atWithdrawal.Load())
		}
	}
}

// Distinct targets, principals, proxies and reports without end leave the ledger within its bounds, and an idle window
// leaves it empty.
func TestMemoryIsBounded(t *testing.T) {
	const remembered, cooldowns, live = 500, 300, 400
	operations := 1_000_000
	if raceEnabled { // everything here goes on in one goroutine
		operations = 100_000
	}
	f := newFixture(t, func(o *Options) { o.MaxRemembered, o.MaxCooldowns, o.MaxLive = remembered, cooldowns, live })
	rng := rand.New(rand.NewPCG(1, 2))
	gone, give := context.WithCancel(t.Context())
	give()
	var mine []Lease
	goroutines := runtime.NumGoroutine()
	for i := range operations {
		n := fmt.Sprintf("p%d", rng.IntN(20))
		switch rng.IntN(12) {
		case 0:
			f.put(n, attempt(int64(i+1)))
		case 1:
			f.fleet.Remove(name(n), "uid-"+n)
		case 2:
			f.ledger.Withdraw(fleet.LeaseKey{UID: n, Attempt: int64(i)})
		case 3:
			f.clock.Step(time.Duration(rng.IntN(2000)) * time.Millisecond)
		case 4, 5, 6:
			if len(mine) > 0 {
				l := mine[rng.IntN(len(mine))]
				_ = f.ledger.Report(l.ID, l.Principal, ResultBanned, fmt.Sprintf("t%d.example", i))
			}
		case 7:
			if len(mine) > 0 {
				l := mine[rng.IntN(len(mine))]
				_ = f.ledger.Release(l.ID, l.Principal)
			}
		default:
			req := Request{Query: Query{Target: fmt.Sprintf("u%d.example", i)}, TTL: time.Minute, Principal: fmt.Sprint(i), Key: fmt.Sprint("k", i)}
			if i%10 == 0 { // classes without end
				req.Selector = map[string]string{"country": "de", fmt.Sprint("odd", i): "x"}
			}
			if i%7 == 0 { // waiters who give up at once
				req.Wait = time.Minute
			}
			if l, err := f.ledger.Acquire(gone, req); err == nil {
				mine = append(mine, l)
				mine = mine[max(0, len(mine)-2000):]
			}
		}
	}
	l := f.ledger
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines, %d before", got, goroutines)
	}
	if got := len(l.leases); got > remembered+live {
		t.Errorf("%d leases kept, want at most %d", got, remembered+live)
	}
	if got := l.cooling.Len(); got > cooldowns+f.fleet.Len() { // one for all targets per proxy comes on top
		t.Errorf("%d cooldowns kept, want at most %d", got, cooldowns+f.fleet.Len())
	}
	if got := len(l.rankings.byClass); got > maxRankings {
		t.Errorf("%d rankings kept, want at most %d", got, maxRankings)
	}
	if got := len(l.keys); got > l.Live() {
		t.Errorf("%d keys kept for %d live leases", got, l.Live())
	}
	if q := &l.queue; q.count != 0 || len(q.lines.groups) != 0 || len(q.free) != 0 {
		t.Errorf("%d waiters in %d lines, %d seats free for them", q.count, len(q.lines.groups), len(q.free))
	}
	f.clock.Step(time.Hour)
	if got := l.Live(); got != 0 {
		t.Errorf("%d live after an idle hour", got)
	}
	if n := len(l.leases) + l.ended.Len() + l.cooling.Len() + l.strays.Len() + len(l.keys) + len(l.targets); n != 0 {
		t.Errorf("%d leases, cooldowns, strays and keys after an idle hour, want 0", n)
	}
	if fleetSize := f.fleet.Len(); len(l.accounts) > fleetSize || len(l.seats) != fleetSize || len(l.known) != fleetSize {
		t.Errorf("%d accounts, %d and %d keys for a fleet of %d", len(l.accounts), len(l.seats), len(l.known), fleetSize)
	}
}
