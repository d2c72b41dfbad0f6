package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNobodyIsSentToWhatIsGone: the backend says so before the status does. Leases and cooldowns are left alone: it may
// turn out to be the same instance.
func TestNobodyIsSentToWhatIsGone(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	l := f.acquire(t, ask("shop.example"))
	gone := func(is bool) {
		t.Helper()
		if !f.fleet.SetGone(name("a"), f.fleet.Get(name("a")).Instance(), is) {
			t.Fatal("the mark was not taken")
		}
	}
	gone(true)
	if r := f.refused(t, ask("shop.example")); r.Unhealthy != 1 || r.Considered != 1 {
		t.Errorf("refused with %+v", r)
	}
	f.latency("a", time.Millisecond) // the verdict of a probe that was under way
	f.refused(t, ask("shop.example"))
	if _, err := f.ledger.Get(l.ID, l.Principal); err != nil || f.ledger.LiveOn(key) != 1 {
		t.Errorf("the lease from before: %v, %d live", err, f.ledger.LiveOn(key))
	}
	gone(false)
	f.refused(t, ask("shop.example")) // nobody has probed it since
	f.latency("a", time.Millisecond)
	f.acquire(t, ask("shop.example"))

	gone(true)
	f.put("a", attempt(2))
	if got := f.acquire(t, ask("shop.example")); got.Proxy.Attempt != 2 {
		t.Errorf("granted on attempt %d", got.Proxy.Attempt)
	}
	if _, err := f.ledger.Get(l.ID, l.Principal); !errors.Is(err, ErrProxyGone) {
		t.Errorf("the lease on the one before: %v", err)
	}
}

// TestWhoWaitsIsServedOnceItIsBackAndWorks, not before.
func TestWhoWaitsIsServedOnceItIsBackAndWorks(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a")
		inst := w.fleet.Get(name("a")).Instance()
		w.fleet.SetGone(name("a"), inst, true)
		out := make(chan served, 1)
		w.send(t.Context(), "client", patient("", time.Minute), out)
		for what, change := range []func(){
			func() { w.latency("a", time.Millisecond) },
			func() { w.fleet.SetGone(name("a"), inst, false) },
		} {
			<-time.After(time.Second)
			change()
			synctest.Wait()
			if len(out) != 0 {
				t.Fatalf("served after change %d", what)
			}
		}
		w.latency("a", time.Millisecond)
		if got := <-out; got.err != nil || got.lease.Proxy.Gone || got.after > 3*time.Second {
			t.Errorf("got %v of %+v after %s", got.err, got.lease.Proxy, got.after)
		}
	})
}
