package client

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// take returns a slot for target that the caller must put back, with its lease in place. It waits for room, for the lease,
// or for ctx to end.
func (t *Transport) take(ctx context.Context, target string) (*slot, error) {
	for {
		s, room, err := t.reserve(target)
		if err != nil {
			return nil, err
		}
		if s == nil {
			select {
			case <-room:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("client: all %d leases of the transport are in use: %w", t.o.MaxLeases, ctx.Err())
			}
		}
		if usable, err := t.await(ctx, s); usable || err != nil {
			return s, err
		}
	}
}

// await waits until s, which the caller holds, has its lease. When that is lost already, or there was an error, s is put
// back.
func (t *Transport) await(ctx context.Context, s *slot) (usable bool, err error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		t.put(s)
		return false, ctx.Err()
	}
	if s.err == nil && s.lease.Err() == nil {
		return true, nil
	}
	t.retire(s)
	t.put(s)
	return false, s.err
}

// reserve takes a place on a slot for target, on a new one if need be. When there is no room it returns what is closed once
// there may be.
func (t *Transport) reserve(target string) (s *slot, room <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, ErrClosed
	}
	for _, s := range t.open[target] {
		if t.hold(s) {
			return s, nil, nil
		}
	}
	if t.count >= t.o.MaxLeases {
		t.evict()
		return nil, t.changed, nil
	}
	s = t.newSlot(target, nil)
	t.count++
	t.hold(s)
	return s, nil, nil
}

// hold takes a place on s if it has one. t.mu is held.
func (t *Transport) hold(s *slot) bool {
	if s.retired || (t.o.ConcurrencyPerLease > 0 && s.users >= t.o.ConcurrencyPerLease) {
		return false
	}
	s.users++
	s.uses++
	if s.uses == t.o.RequestsPerLease {
		t.retireLocked(s)
	}
	return true
}

// takeInstead takes a slot in the place of s, whose proxy is dead or whose lease is lost, and puts s back. All requests
// that s fails share its one successor, as far as they may share a lease. The lease of s is kept until the successor has
// had its first try, so that it does not get the same proxy again.
func (t *Transport) takeInstead(ctx context.Context, s *slot) (*slot, error) {
	next, err := t.succeed(s)
	// Before the wait: the successor may have to wait for the lease of s.
	t.put(s)
	if err != nil {
		return nil, err
	}
	if next != nil {
		if usable, err := t.await(ctx, next); usable || err != nil {
			return next, err
		}
	}
	return t.take(ctx, s.target)
}

func (t *Transport) succeed(s *slot) (*slot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	t.retireLocked(s)
	if s.successor == nil && s.counts {
		// Its place in the count goes over.
		s.counts = false
		s.successor = t.newSlot(s.target, s)
	}
	if s.successor != nil && t.hold(s.successor) {
		return s.successor, nil
	}
	return nil, nil //nolint:nilnil // no successor with a place: take any
}

// put gives a place on s back.
func (t *Transport) put(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.users--
	if s.users > 0 {
		return
	}
	s.idleSince = t.o.Client.o.clock.Now()
	select {
	case <-s.ready:
	default:
		// Nobody waits for the lease any more.
		t.retireLocked(s)
		s.cut(context.Canceled)
	}
	if s.retired {
		s.closeIdle()
	} else if t.count >= t.o.MaxLeases {
		// Somebody may wait for an idle slot to give way.
		t.broadcast()
	}
}

func (t *Transport) retire(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireLocked(s)
}

// retireLocked lets s take no further request. t.mu is held.
func (t *Transport) retireLocked(s *slot) {
	if s.retired {
		return
	}
	s.retired = true
	close(s.retiring)
	rest := slices.DeleteFunc(t.open[s.target], func(other *slot) bool { return other == s })
	if len(rest) == 0 {
		delete(t.open, s.target)
	} else {
		t.open[s.target] = rest
	}
	if s.users == 0 {
		s.closeIdle()
	}
}

// retireIdle retires s if it has been idle for so long, otherwise it returns when to look again.
func (t *Transport) retireIdle(s *slot) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users > 0 {
		return t.o.IdleTimeout
	}
	left := t.o.IdleTimeout - t.o.Client.o.clock.Now().Sub(s.idleSince)
	if left <= 0 {
		t.retireLocked(s)
	}
	return max(left, time.Millisecond)
}

// evict retires the slot that has been idle longest. t.mu is held.
func (t *Transport) evict() {
	var oldest *slot
	for s := range t.slots {
		if s.users == 0 && !s.retired && (oldest == nil || s.idleSince.Before(oldest.idleSince)) {
			oldest = s
		}
	}
	if oldest != nil {
		t.retireLocked(oldest)
	}
}

// remove forgets s, whose lease is released.
func (t *Transport) remove(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retireLocked(s)
	delete(t.slots, s)
	if s.counts {
		s.counts = false
		t.count--
		t.broadcast()
	}
}

// broadcast wakes everybody who waits for room. t.mu is held.
func (t *Transport) broadcast() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// note takes in what a request through s made of the exit. It reports whether there is a report to wait for.
func (t *Transport) note(s *slot, r Result) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.bad():
		if !s.result.bad() {
			s.result = r
			close(s.judged)
		}
		t.retireLocked(s)
		return true
	case r == ResultOK && s.result == ResultNone:
		s.result = r
	}
	return false
}
