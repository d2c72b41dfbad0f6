package lease

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Withdraw refuses every grant and renewal on key from now on and returns how many leases are still live on it. It may
// be repeated to watch them end. The refusal lasts until Readmit, or until key leaves the fleet; for a key that the
// fleet does not hold it lasts for the cooldown window.
func (l *Ledger) Withdraw(key fleet.LeaseKey) (live int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	a := l.account(key)
	a.withdrawn = true
	if a.seat == nil {
		l.stray(a, now)
	}
	l.refresh(a.seat, now)
	return a.held.Len()
}

// Readmit takes a withdrawal back. Readmitting a key that is not withdrawn changes nothing.
func (l *Ledger) Readmit(key fleet.LeaseKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	a := l.accounts[key]
	if a == nil {
		return
	}
	a.withdrawn = false
	if a.seat == nil && a.idle() {
		l.drop(a, now)
	}
	l.refresh(a.seat, now)
	l.serve(now)
}

// follow takes in what has changed in the fleet, and reports whether something had. What was kept for a lease key that is
// gone is dropped with it. l.mu is held.
func (l *Ledger) follow(now time.Time) bool {
	select {
	case <-l.watch.Ready():
	default:
		return false
	}
	for _, name := range l.watch.Take() {
		l.takeIn(name, l.o.Fleet.Get(name), now)
	}
	return true
}

// takeIn notes that the fleet holds p under name, nothing when p is nil. A lease key that was there and is no longer is
// gone by that. l.mu is held.
func (l *Ledger) takeIn(name types.NamespacedName, p *fleet.Proxy, now time.Time) {
	s := l.seats[name]
	if s != nil && s.proxy == p {
		return
	}
	var kept *account
	if s != nil {
		if p != nil && s.key == p.LeaseKey() {
			if maps.Equal(s.proxy.Attributes, p.Attributes) {
				s.proxy, s.offered = p, p.Withheld() == fleet.WithheldNot
				l.refresh(s, now)
				return
			}
			kept = s.account
		}
		l.unseat(s)
		if s.account != nil && kept == nil {
			l.drop(s.account, now)
		}
	}
	if p == nil {
		return
	}
	s = &seat{proxy: p, key: p.LeaseKey(), offered: p.Withheld() == fleet.WithheldNot, standing: standing{hindrance: hindranceUnoffered}}
	l.seats[name], l.known[s.key] = s, s
	if s.account = l.accounts[s.key]; s.account != nil {
		s.account.seat = s
	}
	l.rankings.seat(s)
	l.refresh(s, now)
}

func (l *Ledger) unseat(s *seat) {
	delete(l.seats, s.proxy.Key)
	if l.known[s.key] == s {
		delete(l.known, s.key)
	}
	if s.account != nil {
		s.account.seat = nil
	}
	l.rankings.unseat(s)
}

// refresh works out anew how s stands, after something that bears on it has changed; a nil seat has none. l.mu is held.
func (l *Ledger) refresh(s *seat, now time.Time) {
	if s == nil {
		return
	}
	was := s.hindrance
	s.standing = s.account.standing(s.proxy.Cap, "", now)
	if !s.offered {
		s.hindrance, s.freeAt = hindranceUnoffered, time.Time{}
	} else if until := l.hold.until; s.proxy.Cap > 0 && until.After(now) {
		s.hindrance, s.freeAt = hindranceUnoffered, until
	}
	l.rankings.touch(s)
	// One that was free already had been offered to those who wait.
	if s.hindrance == hindranceNone && was != hindranceNone {
		l.queue.freed(s)
	}
}

// drop ends every lease on a and forgets it. l.mu is held.
func (l *Ledger) drop(a *account, now time.Time) {
	for r, ok := a.held.first(); ok; r, ok = a.held.first() {
		l.end(r, endGone, now)
	}
	l.clearCooling(a)
	if a.inStrays >= 0 {
		l.strays.remove(a)
		a.inStrays = -1
	}
	if a.seat != nil {
		a.seat.account = nil
	}
	delete(l.accounts, a.key)
}

// stray bounds how long an account is kept whose key the fleet does not hold. l.mu is held.
func (l *Ledger) stray(a *account, now time.Time) {
	a.strayUntil = now.Add(l.o.CooldownWindow)
	if a.inStrays >= 0 {
		l.strays.moved(a)
		return
	}
	l.strays.push(a)
}
