package lease

import (
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
	if _, known := l.known[key]; !known {
		l.stray(a, now)
	}
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
	if _, known := l.known[key]; !known && a.idle() {
		l.drop(a, now)
	}
}

// follow takes in which keys the fleet holds. What was kept for a key that is gone is dropped with it. l.mu is held.
func (l *Ledger) follow(now time.Time) {
	select {
	case <-l.watch.Ready():
	default:
		return
	}
	for _, name := range l.watch.Take() {
		if p := l.o.Fleet.Get(name); p != nil {
			l.holds(name, p.LeaseKey(), now)
		} else if old, had := l.current[name]; had {
			l.forget(name, old, now)
		}
	}
}

// holds notes that the fleet has key under name. Another key that was there is gone by that. l.mu is held.
func (l *Ledger) holds(name types.NamespacedName, key fleet.LeaseKey, now time.Time) {
	old, had := l.current[name]
	if had && old == key {
		return
	}
	if had {
		l.forget(name, old, now)
	}
	l.current[name], l.known[key] = key, name
}

func (l *Ledger) forget(name types.NamespacedName, key fleet.LeaseKey, now time.Time) {
	delete(l.current, name)
	if l.known[key] == name {
		delete(l.known, key)
	}
	if a := l.accounts[key]; a != nil {
		l.drop(a, now)
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
