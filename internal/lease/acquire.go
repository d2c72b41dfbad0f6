package lease

import (
	"context"
	"crypto/rand"
	"time"
)

// maxPicks bounds how often one acquisition chases a fleet that changes under its hands.
const maxPicks = 32

// Acquire leases the best proxy that matches the request. Pick, check and record are one critical section: no other
// grant, release, report or withdrawal falls between them. When none is free it waits for one for up to Request.Wait,
// behind everybody who has waited longer for a proxy that would do for both; it needs Start to be running for that. It
// gives up when ctx ends, and then holds no lease; the error is ctx's and, where nothing is free, says so too.
//
// A request with a key whose earlier answer was a lease that is still live gets that lease again.
//
// Errors: *NoMatchError, ErrOverloaded, ErrMayNotGrant, ErrTTL, ErrKeyReused, ctx's error.
func (l *Ledger) Acquire(ctx context.Context, req Request) (Lease, error) {
	if req.TTL <= 0 {
		return Lease{}, ErrTTL
	}
	if req.Prefer == "" {
		req.Prefer = PreferLatency
	}
	lease, w, err := l.tryOrQueue(req)
	if w == nil {
		return lease, err
	}
	return l.await(ctx, w)
}

// tryOrQueue grants, refuses, or puts the request into the queue and returns its place there.
func (l *Ledger) tryOrQueue(req Request) (Lease, *waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	lease, err := l.acquire(req, now)
	if err == nil || req.Wait <= 0 || !canWait(err) {
		return lease, nil, err
	}
	if l.queue.closed {
		return Lease{}, nil, ErrMayNotGrant
	}
	w := l.queue.join(l.rankings, req, l.o.MaxWaiting, l.o.Fleet.Fewest)
	return lease, w, err
}

// acquire is one try. l.mu is held.
func (l *Ledger) acquire(req Request, now time.Time) (Lease, error) {
	if !l.o.MayGrant() {
		return Lease{}, ErrMayNotGrant
	}
	if lease, ok, err := l.again(req, now); ok || err != nil {
		return lease, err
	}
	if l.queue.missed {
		// The right to grant is back since this operation began: those who wait come first.
		if l.serve(now); l.queue.missed {
			return Lease{}, ErrMayNotGrant
		}
	}
	var refused *NoMatchError
	for picks := 0; picks < maxPicks; picks++ {
		var best *seat
		if best, refused = l.pick(req.Query, now); best == nil {
			// A refusal must be true of one instant: nothing may have changed since the fleet was last taken in.
			if !l.follow(now) {
				return Lease{}, refused
			}
			continue
		}
		if len(l.queue.free) > 0 { // not all that has become free has been offered to those who wait yet
			if w := l.queue.lines.firstFor(best, now); w != nil {
				if l.give(best, w, now) {
					picks--
				}
				continue
			}
		}
		lease, ok, err := l.tryAcquire(best, req, now)
		if ok || err != nil {
			return lease, err
		}
		// The fleet changed between the pick and the check, and not this proxy alone.
		l.follow(now)
	}
	if refused != nil {
		return Lease{}, refused
	}
	return Lease{}, ErrOverloaded
}

// again answers a request whose key stands for a live lease; ok is false when there is none. l.mu is held.
func (l *Ledger) again(req Request, now time.Time) (_ Lease, ok bool, err error) {
	r := l.keys[req.keyName()]
	if r == nil {
		return Lease{}, false, nil
	}
	if r.body != req.Body {
		return Lease{}, true, ErrKeyReused
	}
	r, p, err := l.find(r.id, req.Principal, now)
	if err != nil {
		return Lease{}, false, nil //nolint:nilerr // it ended with its proxy just now, and its key with it
	}
	return r.lease(p), true, nil
}

// tryAcquire grants a lease on exactly the instance at s, or reports that it is not to be had (any more). This is the
// whole of what a shared ledger would have to do atomically. l.mu is held.
func (l *Ledger) tryAcquire(s *seat, req Request, now time.Time) (Lease, bool, error) {
	if fresh := l.o.Fleet.Get(s.proxy.Key); fresh != s.proxy {
		l.takeIn(s.proxy.Key, fresh, now)
		return Lease{}, false, nil
	}
	if !s.offered || s.toward(req.Target, now).hindrance != hindranceNone {
		return Lease{}, false, nil
	}
	if l.live.Len() >= l.o.MaxLive {
		return Lease{}, false, ErrOverloaded
	}
	// Asked again right before the commit: the pick took time, and the right to grant may have run out meanwhile.
	if !l.o.MayGrant() {
		return Lease{}, false, ErrMayNotGrant
	}
	ttl := min(req.TTL, l.o.MaxLifetime)
	r := &record{
		id: rand.Text(), principal: req.Principal, target: req.Target, account: l.account(s.key),
		term: &term{proxy: s.proxy.Key, start: now, expires: now.Add(ttl), ttl: ttl},
	}
	if r.key = req.keyName(); r.key != (keyName{}) {
		r.body = req.Body
		l.keys[r.key] = r
	}
	l.grants++
	r.account.lastLeased = l.grants
	r.account.held.push(r)
	l.live.push(r)
	l.leases[r.id] = r
	l.refresh(s, now)
	return r.lease(s.proxy), true, nil
}
