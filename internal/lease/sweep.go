package lease

import (
	"context"
	"time"
)

const sweepInterval = time.Second

// Start lets time pass for those who wait: it ends what is over at the instant it is over while anybody waits, otherwise
// once a second, so that an unused ledger gives its memory back. Every other call brings the ledger up to date by itself.
// It blocks until ctx ends, then refuses those who wait with ErrMayNotGrant and returns nil.
func (l *Ledger) Start(ctx context.Context) error {
	timer := l.o.Clock.NewTimer(sweepInterval)
	defer timer.Stop()
	// A watcher of its own: what the other one has to tell is for the operations, at the very moment they begin.
	bell := l.o.Fleet.Watch()
	defer l.o.Fleet.Stop(bell)
	for {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			l.dismiss(ErrMayNotGrant)
			return nil
		case <-timer.C():
		case <-l.queue.wake:
		case <-bell.Ready():
			bell.Take()
		}
		next := l.sweep()
		if !timer.Stop() {
			// A clock of tests keeps what fired before, and would hold everything up when it fires again.
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(next)
	}
}

// sweep brings the ledger up to date and returns for how long nothing has to happen: no lease is shorter than that, so
// none begins and ends unseen.
func (l *Ledger) sweep() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	next := now.Add(sweepInterval)
	if l.queue.count == 0 {
		return sweepInterval
	}
	if r, ok := l.live.first(); ok && r.expires.Before(next) {
		next = r.expires
	}
	if c, ok := l.cooling.first(); ok && c.until.Before(next) {
		next = c.until
	}
	if until := l.hold.until; !until.IsZero() && until.Before(next) {
		next = until
	}
	return next.Sub(now)
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
		l.warmed(c)
	}
	l.follow(now)
	for a, ok := l.strays.due(now); ok; a, ok = l.strays.due(now) {
		a.inStrays = -1
		if a.seat == nil {
			l.drop(a, now)
		}
	}
	l.beginHold(now)
	l.endHold(now)
	l.serve(now)
	return now
}
