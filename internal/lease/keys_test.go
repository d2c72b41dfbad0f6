package lease

import (
	"context"
	"testing"
	"time"
)

func TestARequestWithAKeyYieldsOneLease(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	keyed := func(principal string, body byte) Request {
		r := ask("")
		r.Principal, r.Key, r.Body = principal, "key", [32]byte{body}
		return r
	}
	first := f.acquire(t, keyed("crawler", 1))
	if again := f.acquire(t, keyed("crawler", 1)); again.ID != first.ID {
		t.Errorf("the same request got %s and then %s", first.ID, again.ID)
	}
	if other := f.acquire(t, keyed("another", 1)); other.ID == first.ID {
		t.Error("another principal got the same lease")
	}
	_, err := f.ledger.Acquire(t.Context(), keyed("crawler", 2))
	wantErr(t, "another body", err, ErrKeyReused)
	wantErr(t, "Release", f.ledger.Release(first.ID, first.Principal), nil)
	second := f.acquire(t, keyed("crawler", 2))
	if second.ID == first.ID {
		t.Error("a lease came back after its release")
	}
	f.clock.Step(time.Minute)
	if third := f.acquire(t, keyed("crawler", 2)); third.ID == second.ID {
		t.Error("a lease came back after its expiry")
	}
	f.put("a", attempt(2))
	f.acquire(t, keyed("crawler", 3)) // its proxy is gone, and with it the lease and the key
	if n := len(f.ledger.keys); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
}

func TestARequestThatWaitsTwiceYieldsOneLease(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a", withCap(2))
		one, two := w.acquire(t, ask("")), w.acquire(t, ask(""))
		req := patient("", 30*time.Second)
		req.Key = "key"
		out := make(chan served, 2)
		ctx, cancel := context.WithCancel(t.Context())
		w.send(ctx, "first", req, out)
		w.send(t.Context(), "second", req, out)
		w.release(one)
		a := <-out
		w.release(two)
		b := <-out
		if a.err != nil || b.err != nil || a.lease.ID != b.lease.ID || w.ledger.Live() != 1 {
			t.Errorf("%s: %v, %s: %v, %d live leases", a.lease.ID, a.err, b.lease.ID, b.err, w.ledger.Live())
		}
		cancel()
	})
}
