package lease

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Get returns the live lease id of principal.
//
// Errors: ErrUnknownLease, ErrExpired, ErrProxyGone.
func (l *Ledger) Get(id, principal string) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, p, err := l.find(id, principal, l.begin())
	if err != nil {
		return Lease{}, err
	}
	return r.lease(p), nil
}

// Renew lets the lease id of principal expire ttl from now. A ttl that reaches past the lease's longest life is cut to
// it, so an expiry never passes Start + Options.MaxLifetime; the returned lease says what was given. A shorter ttl than
// what was left shortens the lease.
//
// Errors: ErrUnknownLease, ErrExpired, ErrProxyGone, ErrDraining, ErrMayNotGrant, ErrTTL; the lease is then unchanged.
func (l *Ledger) Renew(id, principal string, ttl time.Duration) (Lease, error) {
	if ttl <= 0 {
		return Lease{}, ErrTTL
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	if !l.o.MayGrant() {
		return Lease{}, ErrMayNotGrant
	}
	r, p, err := l.find(id, principal, now)
	if err != nil {
		return Lease{}, err
	}
	if r.account.withdrawn || p.Draining || p.Deleting {
		return Lease{}, ErrDraining
	}
	r.ttl = min(ttl, r.start.Add(l.o.MaxLifetime).Sub(now))
	r.expires = now.Add(r.ttl)
	l.live.moved(r)
	r.account.held.moved(r)
	l.refresh(r.account.seat, now)
	return r.lease(p), nil
}

// Release ends the lease id of principal. Ending one that is unknown, another's or already over changes nothing and is
// no error: the only error is ErrMayNotGrant.
func (l *Ledger) Release(id, principal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	if !l.o.MayGrant() {
		return ErrMayNotGrant
	}
	if r := l.leases[id]; r != nil && r.principal == principal && r.ended == endNone {
		l.end(r, endReleased, now)
		l.serve(now)
	}
	return nil
}

// find returns the live lease id of principal and its proxy as the fleet has it. l.mu is held.
func (l *Ledger) find(id, principal string, now time.Time) (*record, *fleet.Proxy, error) {
	r := l.leases[id]
	if r == nil || r.principal != principal {
		return nil, nil, ErrUnknownLease
	}
	if r.ended == endNone {
		p := l.o.Fleet.Get(r.proxy)
		if p != nil && p.LeaseKey() == r.account.key {
			return r, p, nil
		}
		l.end(r, endGone, now)
	}
	switch r.ended {
	case endExpired:
		return nil, nil, ErrExpired
	case endGone:
		return nil, nil, ErrProxyGone
	case endNone, endReleased:
	}
	return nil, nil, ErrUnknownLease
}

// end takes r, which is live, out of all counts and remembers it for late reports. l.mu is held.
func (l *Ledger) end(r *record, how ending, at time.Time) {
	l.live.remove(r)
	l.bury(r, how, at)
}

// bury is end for a lease that is out of the live queue already.
func (l *Ledger) bury(r *record, how ending, at time.Time) {
	r.account.held.remove(r)
	l.refresh(r.account.seat, l.last)
	if r.key != (keyName{}) {
		delete(l.keys, r.key)
	}
	l.tally.end(how)
	r.term = nil
	r.ended, r.forget = how, at.Add(l.o.CooldownWindow)
	l.ended.push(r)
	for l.ended.Len() > l.o.MaxRemembered {
		oldest, _ := l.ended.first()
		l.ended.remove(oldest)
		delete(l.leases, oldest.id)
	}
}
