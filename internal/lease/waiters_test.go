package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// waitRoom is a running ledger in simulated time, with clients that wait.
type waitRoom struct {
	*fixture
	t     *testing.T
	began time.Time
	stop  func()
}

func waiting(t *testing.T, f func(*testing.T, *waitRoom), change ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		change = append(change, func(o *Options) { o.Clock = clock.RealClock{} })
		w := &waitRoom{fixture: newFixture(t, change...), t: t, began: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.ledger.Start(ctx) }()
		w.stop = func() { cancel(); <-ended }
		defer w.stop()
		f(t, w)
	})
}

// served is what became of one client, and when.
type served struct {
	name  string
	lease Lease
	err   error
	after time.Duration
}

// send lets a client ask, and returns once it waits or has its answer.
func (w *waitRoom) send(ctx context.Context, name string, req Request, out chan<- served) {
	go func() {
		l, err := w.ledger.Acquire(ctx, req)
		out <- served{name, l, err, time.Since(w.began)}
	}()
	synctest.Wait()
}

func (w *waitRoom) release(l Lease) {
	w.t.Helper()
	wantErr(w.t, "Release", w.ledger.Release(l.ID, l.Principal), nil)
	synctest.Wait()
}

func patient(target string, wait time.Duration) Request {
	r := ask(target)
	r.Wait = wait
	return r
}

func TestWaitersAreServedInTheOrderTheyCame(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a", withCap(1))
		held := w.acquire(t, ask(""))
		out := make(chan served, 10)
		for i := range 5 {
			w.send(t.Context(), fmt.Sprint(i), patient("", 30*time.Second), out)
		}
		for i := range 5 {
			w.release(held)
			got := <-out
			if got.err != nil || got.name != fmt.Sprint(i) {
				t.Fatalf("client %s got %v in turn %d", got.name, got.err, i)
			}
			// Whoever comes now and does not wait must not be faster than those who do.
			if _, err := w.ledger.Acquire(t.Context(), ask("")); err == nil {
				t.Fatal("a newcomer overtook those who wait")
			}
			held = got.lease
		}
	})
}

func TestAProxyGoesToWhoeverHasWaitedLongestOfThoseItWouldDoFor(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		german := func(p *fleet.Proxy) { p.Attributes = map[string]string{"country": "de"} }
		french := func(p *fleet.Proxy) { p.Attributes = map[string]string{"country": "fr"} }
		w.put("a", withCap(1), german)
		w.put("b", withCap(1), french)
		a, b := w.acquire(t, ask("")), w.acquire(t, ask(""))
		wants := func(country string) Request {
			r := patient("", 30*time.Second)
			r.Selector = map[string]string{"country": country}
			return r
		}
		out := make(chan served, 10)
		w.send(t.Context(), "french", wants("fr"), out)
		w.send(t.Context(), "german", wants("de"), out)
		w.send(t.Context(), "any", patient("", 30*time.Second), out)
		w.release(a) // the German one
		if got := <-out; got.name != "german" {
			t.Errorf("the German proxy went to %s", got.name)
		}
		w.release(b)
		if got := <-out; got.name != "french" {
			t.Errorf("the French proxy went to %s, which came later", got.name)
		}
	})
}

func TestWaitersAreServedAtTheVeryInstant(t *testing.T) {
	for name, tc := range map[string]struct {
		occupy func(w *waitRoom)
		at     time.Duration
	}{
		"a lease expires": {func(w *waitRoom) {
			req := ask("")
			req.TTL = 1500 * time.Millisecond
			w.acquire(w.t, req)
		}, 1500 * time.Millisecond},
		"a cooldown ends": {func(w *waitRoom) {
			l := w.acquire(w.t, ask("shop.example"))
			w.report(w.t, l, "")
			w.release(l)
		}, 2 * time.Second},
		"a verdict turns": {func(w *waitRoom) {
			w.unhealthy("a")
			time.AfterFunc(300*time.Millisecond, func() { w.latency("a", time.Millisecond) })
		}, 300 * time.Millisecond},
		"it is readmitted": {func(w *waitRoom) {
			key := w.fleet.Get(name("a")).LeaseKey()
			w.ledger.Withdraw(key)
			time.AfterFunc(300*time.Millisecond, func() { w.ledger.Readmit(key) })
		}, 300 * time.Millisecond},
		"its rests are ended": {func(w *waitRoom) {
			l := w.acquire(w.t, ask("shop.example"))
			w.report(w.t, l, "")
			w.release(l)
			time.AfterFunc(300*time.Millisecond, func() { _ = w.ledger.ClearCooldowns(l.Key, "shop.example") })
		}, 300 * time.Millisecond},
		"another proxy comes": {func(w *waitRoom) {
			w.acquire(w.t, ask(""))
			time.AfterFunc(300*time.Millisecond, func() { w.put("b") })
		}, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, func(t *testing.T, w *waitRoom) {
				w.put("a", withCap(1))
				tc.occupy(w)
				out := make(chan served, 1)
				w.send(t.Context(), "", patient("shop.example", 30*time.Second), out)
				if got := <-out; got.err != nil || got.after != tc.at {
					t.Errorf("served after %s with %v, want after %s", got.after, got.err, tc.at)
				}
			}, func(o *Options) { o.CooldownWindow = 2 * time.Second })
		})
	}
}

func TestAWaitEnds(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a", withCap(1))
		held := w.acquire(t, ask(""))
		out := make(chan served, 1)
		w.send(t.Context(), "", patient("", 3*time.Second), out)
		var refused *NoMatchError
		if got := <-out; !errors.As(got.err, &refused) || refused.AtCapacity != 1 || got.after != 3*time.Second {
			t.Errorf("after %s: %v", got.after, got.err)
		}
		none := patient("", 3*time.Second)
		none.Selector = map[string]string{"country": "nowhere"}
		w.send(t.Context(), "", none, out)
		if got := <-out; !errors.As(got.err, &refused) || got.after != 3*time.Second {
			t.Errorf("for what nothing matches: %v after %s, want a refusal at once", got.err, got.after)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.send(ctx, "", patient("", 30*time.Second), out)
		cancel()
		if got := <-out; !errors.Is(got.err, context.Canceled) {
			t.Errorf("given up: %v", got.err)
		}
		w.release(held)
		if n := w.ledger.Live(); n != 0 {
			t.Errorf("%d leases are live: one that had given up was served", n)
		}
		held = w.acquire(t, ask(""))
		w.send(t.Context(), "", patient("", 30*time.Second), out)
		w.stop()
		if got := <-out; !errors.Is(got.err, ErrMayNotGrant) {
			t.Errorf("at the ledger's end: %v", got.err)
		}
		if q := &w.ledger.queue; q.count != 0 || len(q.lines.groups) != 0 {
			t.Errorf("%d wait in %d lines", q.count, len(q.lines.groups))
		}
		w.release(held)
	})
}

// A lease that is granted to somebody who has just given up is free again at once.
func TestAGrantToWhoHasGivenUpIsTakenBack(t *testing.T) {
	f := newFixture(t)
	f.put("a", withCap(1))
	held := f.acquire(t, ask(""))
	_, w, _ := f.ledger.tryOrQueue(patient("", time.Minute))
	_, next, _ := f.ledger.tryOrQueue(patient("", time.Minute))
	wantErr(t, "Release", f.ledger.Release(held.ID, held.Principal), nil)
	wantErr(t, "giving up", f.ledger.giveUp(w, context.Canceled), context.Canceled)
	if got := <-next.done; got.err != nil {
		t.Errorf("the next one got %v", got.err)
	}
	if n := f.ledger.Live(); n != 1 {
		t.Errorf("%d live leases, want 1", n)
	}
}

func TestNoMoreWaitThanMayWait(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxWaiting = 1 })
	f.put("a", withCap(1))
	f.acquire(t, ask(""))
	if _, w, _ := f.ledger.tryOrQueue(patient("", time.Minute)); w == nil {
		t.Fatal("the first one may not wait")
	}
	if got := f.refused(t, patient("", time.Minute)); got.AtCapacity != 1 {
		t.Errorf("one too many: %+v", got)
	}
}

// The same request twice, both waiting, as after a time-out on the client's side: one lease.
// Two proxies become free at one instant: the younger one does not get the one that the older one waits for.
func TestEachGetsWhatIsLeftForIt(t *testing.T) {
	for _, first := range []string{"fast", "slow"} {
		f := newFixture(t)
		for _, n := range []string{"fast", "slow"} {
			f.put(n, withCap(1), func(p *fleet.Proxy) { p.Attributes = map[string]string{"name": n} })
		}
		f.latency("fast", time.Millisecond)
		for range 2 {
			f.acquire(t, ask(""))
		}
		named := patient("", time.Hour)
		named.Selector = map[string]string{"name": first}
		_, older, _ := f.ledger.tryOrQueue(named)
		_, younger, _ := f.ledger.tryOrQueue(patient("", time.Hour))
		f.clock.Step(2 * time.Minute) // both leases are over
		f.ledger.sweep()
		for what, w := range map[string]*waiter{"older": older, "younger": younger} {
			select {
			case got := <-w.done:
				if name := got.lease.Proxy.Key.Name; got.err != nil || (what == "older") != (name == first) {
					t.Errorf("the %s one got %s, %v", what, name, got.err)
				}
			default:
				t.Errorf("the %s one, while another waits for %s, still waits", what, first)
			}
		}
	}
}

// The right to grant that comes back in the middle of an operation does not let a newcomer overtake.
func TestARightThatComesBackOvertakesNobody(t *testing.T) {
	var answers []bool
	f := newFixture(t, func(o *Options) {
		o.MayGrant = func() bool {
			if len(answers) == 0 {
				return true
			}
			now := answers[0]
			answers = answers[1:]
			return now
		}
	})
	f.put("a", withCap(1))
	f.acquire(t, ask(""))
	_, w, _ := f.ledger.tryOrQueue(patient("", time.Hour))
	f.clock.Step(2 * time.Minute) // the lease is over
	answers = []bool{false}
	if _, err := f.ledger.Acquire(t.Context(), ask("")); err == nil {
		t.Error("a newcomer overtook the one who waits")
	}
	if len(w.done) != 1 {
		t.Error("the one who waits was not served")
	}
}

// What became free while the right to grant was in doubt goes to those who wait once it is not.
func TestWaitersAreServedAfterADoubtfulTime(t *testing.T) {
	may := true
	f := newFixture(t, func(o *Options) { o.MayGrant = func() bool { return may } })
	f.put("a", withCap(1))
	f.acquire(t, ask(""))
	_, w, _ := f.ledger.tryOrQueue(patient("", time.Hour))
	may = false
	f.clock.Step(2 * time.Minute) // the lease expires meanwhile
	f.ledger.sweep()
	may = true
	f.ledger.sweep()
	select {
	case got := <-w.done:
		wantErr(t, "the waiter", got.err, nil)
	default:
		t.Error("still waiting for a proxy that is free")
	}
}

func TestNobodyWaitsOnALedgerThatHasEnded(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a", withCap(1))
		w.acquire(t, ask(""))
		w.stop()
		_, err := w.ledger.Acquire(t.Context(), patient("", 30*time.Second))
		wantErr(t, "a late request", err, ErrMayNotGrant)
	})
}

// A label that goes away and comes back while a class is looked up for the first time must not spoil its ranking.
func TestARelabelledProxyDoesNotSpoilARanking(t *testing.T) {
	var asked int
	var during func()
	f := newFixture(t, func(o *Options) {
		o.MayGrant = func() bool {
			if asked++; during != nil {
				during()
			}
			return true
		}
	})
	for _, n := range []string{"a", "b", "c"} {
		f.put(n, withCap(1))
	}
	f.latency("a", time.Millisecond)
	f.ledger.Live()
	relabel := func(country string) {
		p := *f.fleet.Get(name("a"))
		verdict := p.Verdict
		p.Attributes = map[string]string{"country": country}
		f.fleet.Apply(&p)
		f.fleet.SetVerdict(name("a"), verdict)
	}
	german := ask("")
	german.Selector = map[string]string{"country": "de"}
	asked = 0
	during = func() {
		switch asked {
		case 1: // before the pick
			relabel("fr")
		case 2: // between pick and grant
			relabel("de")
		}
	}
	f.acquire(t, german)
	during = nil
	f.unhealthy("a")
	f.acquire(t, german)
	if got := f.refused(t, german); got.Considered != 3 {
		t.Errorf("%+v, want all three considered, once each", got)
	}
}
