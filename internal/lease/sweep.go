package lease

import (
	"context"
	"time"
)

const sweepInterval = time.Second

// Start sweeps what is over once a second until ctx ends, so that an unused ledger gives its memory back. Nothing
// depends on it: every call brings the ledger up to date first. It blocks and always returns nil.
func (l *Ledger) Start(ctx context.Context) error {
	ticker := l.o.Clock.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			l.Live()
		}
	}
}

// NeedLeaderElection lets the manager run the sweep on every replica.
func (l *Ledger) NeedLeaderElection() bool { return false }

// begin opens an operation: it returns the time of the operation after ending what is over by then and taking in what
// changed in the fleet. l.mu is held.
func (l *Ledger) begin() time.Time {
	now := l.o.Clock.Now()
	if now.Before(l.last) {
		now = l.last
	}
	l.last = now
	for r, ok := l.live.due(now); ok; r, ok = l.live.due(now) {
		l.bury(r, endExpired, r.expires)
	}
	for r, ok := l.ended.due(now); ok; r, ok = l.ended.due(now) {
		delete(l.leases, r.id)
	}
	for c, ok := l.cooling.due(now); ok; c, ok = l.cooling.due(now) {
		delete(c.account.cooling, c.target)
		if len(c.account.cooling) == 0 {
			c.account.cooling = nil
		}
	}
	l.follow(now)
	for a, ok := l.strays.due(now); ok; a, ok = l.strays.due(now) {
		a.inStrays = -1
		if _, known := l.known[a.key]; !known {
			l.drop(a, now)
		}
	}
	return now
}
