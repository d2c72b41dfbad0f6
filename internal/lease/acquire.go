package lease

import (
	"crypto/rand"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// maxPicks bounds how often one acquisition chases a fleet that changes under its hands.
const maxPicks = 32

// Acquire leases the best proxy that matches the request. Pick, check and record are one critical section: no other
// grant, release, report or withdrawal falls between them. It does not wait for a proxy to become free.
//
// Errors: *NoMatchError, ErrOverloaded, ErrMayNotGrant, ErrTTL.
func (l *Ledger) Acquire(req Request) (Lease, error) {
	if req.TTL <= 0 {
		return Lease{}, ErrTTL
	}
	id := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	if !l.o.MayGrant() {
		return Lease{}, ErrMayNotGrant
	}
	standing := func(p *fleet.Proxy) standing {
		return l.accounts[p.LeaseKey()].standing(p.Cap, req.Target, now)
	}
	for range maxPicks {
		best, refused := l.picker.pick(req.Query, standing)
		if best == nil {
			return Lease{}, refused
		}
		lease, ok, err := l.tryAcquire(best, req, id, now)
		if ok || err != nil {
			return lease, err
		}
		// The fleet changed between the pick and the check; what the next pick sees is newer.
	}
	return Lease{}, ErrOverloaded
}

// tryAcquire grants a lease on exactly that instance of p, or reports that it is not to be had (any more). This is the
// whole of what a shared ledger would have to do atomically. l.mu is held.
func (l *Ledger) tryAcquire(p *fleet.Proxy, req Request, id string, now time.Time) (Lease, bool, error) {
	key := p.LeaseKey()
	fresh := l.o.Fleet.Get(p.Key)
	if fresh == nil || fresh.LeaseKey() != key || fresh.Withheld() != fleet.WithheldNot {
		return Lease{}, false, nil
	}
	if l.accounts[key].standing(fresh.Cap, req.Target, now).hindrance != hindranceNone {
		return Lease{}, false, nil
	}
	if l.live.Len() >= l.o.MaxLive {
		return Lease{}, false, ErrOverloaded
	}
	// Asked again right before the commit: the pick took time, and the right to grant may have run out meanwhile.
	if !l.o.MayGrant() {
		return Lease{}, false, ErrMayNotGrant
	}
	// Noted now, for the watch may tell of the next key without ever having told of this one.
	l.holds(p.Key, key, now)
	ttl := min(req.TTL, l.o.MaxLifetime)
	r := &record{
		id: id, principal: req.Principal, target: req.Target, proxy: p.Key, account: l.account(key),
		start: now, expires: now.Add(ttl), ttl: ttl,
	}
	l.grants++
	r.account.lastLeased = l.grants
	r.account.held.push(r)
	l.live.push(r)
	l.leases[id] = r
	return r.lease(fresh), true, nil
}
