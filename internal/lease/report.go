package lease

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Report records what principal saw under lease id, which may have ended up to the cooldown window ago. The target
// falls back from the report to the lease; with neither the proxy rests for every target, and so it does when it
// already cools for MaxTargets. A cooldown only ever becomes longer. A report on an instance that is no longer part of
// the fleet is taken and changes nothing.
//
// Errors: ErrUnknownLease, ErrResult, ErrMayNotGrant.
func (l *Ledger) Report(id, principal string, result Result, target string) error {
	if !result.Valid() {
		return ErrResult
	}
	rest, err := l.report(id, principal, result, target)
	if rest != nil && l.o.OnCooldown != nil {
		l.o.OnCooldown(*rest)
	}
	return err
}

// report records a valid result. It returns what comes of it for a proxy of the fleet, nil for nothing.
func (l *Ledger) report(id, principal string, result Result, target string) (*Cooldown, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	if !l.o.MayGrant() {
		return nil, ErrMayNotGrant
	}
	r := l.leases[id]
	if r == nil || r.principal != principal {
		return nil, ErrUnknownLease
	}
	l.tally.reports[result]++
	if result == ResultOK || l.accounts[r.account.key] != r.account {
		return nil, nil
	}
	if target == "" {
		target = r.target
	}
	until := now.Add(l.o.CooldownWindow)
	l.cool(r.account, target, until, now)
	if r.account.seat == nil {
		return nil, nil
	}
	return &Cooldown{Proxy: r.account.seat.proxy.Key, Principal: principal, Result: result, Target: target, Until: until}, nil
}

// ClearCooldowns ends the rest of key for target; with an empty target it ends every rest of key. A rest for every
// target is not ended by naming one. The only error is ErrMayNotGrant.
func (l *Ledger) ClearCooldowns(key fleet.LeaseKey, target string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	if !l.o.MayGrant() {
		return ErrMayNotGrant
	}
	a := l.accounts[key]
	if a == nil {
		return nil
	}
	if target != "" {
		l.warm(a.cooling[target])
	} else {
		l.clearCooling(a)
	}
	l.serve(now)
	return nil
}

// cool lets a rest for target until then; for every target when target is empty or there is no room to remember it.
func (l *Ledger) cool(a *account, target string, until, now time.Time) {
	c := a.cooling[target]
	if c == nil && target != "" && (len(a.cooling) >= MaxTargets || l.cooling.Len() >= l.o.MaxCooldowns) {
		l.cool(a, "", until, now)
		return
	}
	switch {
	case c == nil:
		if a.cooling == nil {
			a.cooling = map[string]*cooldown{}
		}
		c = &cooldown{account: a, target: target, until: until}
		a.cooling[target] = c
		l.cooling.push(c)
		l.cold(c)
	case until.After(c.until):
		c.until = until
		l.cooling.moved(c)
	}
	l.refresh(a.seat, now)
}

// warm ends a cooldown before its time; a nil one ends nothing.
func (l *Ledger) warm(c *cooldown) {
	if c != nil {
		l.cooling.remove(c)
		l.warmed(c)
	}
}

// warmed takes in that c, which is out of the queue, is over.
func (l *Ledger) warmed(c *cooldown) {
	delete(c.account.cooling, c.target)
	if len(c.account.cooling) == 0 {
		c.account.cooling = nil
	}
	if cold := l.targets[c.target]; cold != nil {
		if delete(cold, c.account); len(cold) == 0 {
			delete(l.targets, c.target)
		}
	}
	s := c.account.seat
	l.refresh(s, l.last)
	if s != nil && s.hindrance == hindranceNone {
		l.queue.freed(s) // for this target
	}
}

// cold notes for which target c's proxy rests.
func (l *Ledger) cold(c *cooldown) {
	if c.target == "" {
		return
	}
	if l.targets[c.target] == nil {
		l.targets[c.target] = map[*account]struct{}{}
	}
	l.targets[c.target][c.account] = struct{}{}
}

func (l *Ledger) clearCooling(a *account) {
	for _, c := range a.cooling {
		l.warm(c)
	}
}
