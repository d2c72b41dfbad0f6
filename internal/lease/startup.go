package lease

import "time"

// hold keeps proxies with a cap back for a while after the start, because leases that the ledger before granted may still
// be held on them.
type hold struct {
	lasts time.Duration
	// until is zero before the first grant could have been made and after the hold is over.
	until time.Time
	begun bool
}

// beginHold starts the hold once, when this ledger may grant for the first time: Start looks every second, every
// operation does, too. l.mu is held.
func (l *Ledger) beginHold(now time.Time) {
	if l.hold.lasts == 0 || l.hold.begun || !l.o.MayGrant() {
		return
	}
	l.hold.begun = true
	l.hold.until = now.Add(l.hold.lasts)
	l.refreshAll(now)
}

// endHold ends the hold when its time has come. l.mu is held.
func (l *Ledger) endHold(now time.Time) {
	if until := l.hold.until; !until.IsZero() && !until.After(now) {
		l.hold.until = time.Time{}
		l.refreshAll(now)
	}
}

func (l *Ledger) refreshAll(now time.Time) {
	for _, s := range l.seats {
		l.refresh(s, now)
	}
}
