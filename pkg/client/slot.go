package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// finishTime is what the report and the release at the end of a lease take at most together.
const finishTime = 20 * time.Second

// slot is one lease of a Transport, from before it is acquired until after it is released. Its goroutine, run, is the only
// one that acquires, reports and releases.
type slot struct {
	t      *Transport
	target string
	// life ends when requests through the slot, or the wait for its lease, must.
	life context.Context //nolint:containedctx // the life of the slot, which many requests share
	cut  context.CancelCauseFunc

	// ready is closed once lease, http and conns, or err, are set.
	ready chan struct{}
	lease *Lease
	http  *http.Transport
	conns *conns
	err   error

	// retiring is closed when the slot takes no further request, idle when it has none any more either, judged when result is
	// bad, reported when that has been reported, or could not be.
	retiring, idle, judged, reported chan struct{}
	// tried is closed when the first try to get a lease is over, gone when the lease is released.
	tried, gone chan struct{}

	// Guarded by t.mu.
	users, uses int
	retired     bool
	idleClosed  bool
	idleSince   time.Time
	result      Result
	successor   *slot
	counts      bool // against MaxLeases
}

// newSlot starts one; before is the one that it replaces, if any. t.mu is held.
func (t *Transport) newSlot(target string, before *slot) *slot {
	s := &slot{
		t: t, target: target, ready: make(chan struct{}), retiring: make(chan struct{}), idle: make(chan struct{}),
		judged: make(chan struct{}), reported: make(chan struct{}), tried: make(chan struct{}), gone: make(chan struct{}), counts: true,
	}
	s.life, s.cut = context.WithCancelCause(context.Background())
	t.slots[s] = struct{}{}
	t.open[target] = append(t.open[target], s)
	t.wg.Go(func() { s.run(before) })
	return s
}

// closeIdle is for t.mu to be held.
func (s *slot) closeIdle() {
	if !s.idleClosed {
		s.idleClosed = true
		close(s.idle)
	}
}

func (s *slot) run(before *slot) {
	defer close(s.gone)
	defer s.t.remove(s)
	defer s.cut(nil)
	lease, err := s.acquire(before)
	s.t.mu.Lock()
	s.lease, s.err = lease, err
	if err == nil {
		s.connect()
	}
	s.idleSince = s.t.o.Client.o.clock.Now()
	s.t.mu.Unlock()
	close(s.ready)
	if err != nil {
		close(s.reported)
		return
	}
	s.watch()
	s.finish()
}

// acquire leases a proxy, preferably while the slot before still has its own.
func (s *slot) acquire(before *slot) (*Lease, error) {
	req := s.t.o.Lease
	req.Target = s.target
	if before != nil {
		now := req
		now.Wait = 0
		lease, err := s.t.o.Client.Acquire(s.life, now)
		close(s.tried)
		if !errors.Is(err, ErrNoMatch) {
			return lease, err
		}
		select {
		case <-before.gone:
		case <-s.life.Done():
			return nil, context.Cause(s.life)
		}
	} else {
		close(s.tried)
	}
	return s.t.o.Client.Acquire(s.life, req)
}

// connect gives the slot connections of its own.
func (s *slot) connect() {
	s.http = s.t.o.Base.Clone()
	s.http.Proxy = s.lease.HTTPProxy
	s.http.OnProxyConnectResponse = checkConnect
	s.conns = newConns(s.http)
	s.http.DialContext = s.conns.DialContext
	// These would go before it.
	s.http.Dial, s.http.DialTLS, s.http.DialTLSContext = nil, nil, nil //nolint:staticcheck // deprecated, but obeyed
}

// watch returns when the slot takes no further request, for which it looks after the time.
func (s *slot) watch() {
	next := s.t.o.IdleTimeout
	for {
		timer := s.t.o.Client.o.clock.NewTimer(next)
		select {
		case <-s.retiring:
			timer.Stop()
			return
		case <-s.lease.Ending():
			timer.Stop()
			s.t.retire(s)
		case <-timer.C():
			next = s.t.retireIdle(s)
		}
	}
}

// finish sees the last requests off, reports and releases.
func (s *slot) finish() {
	// A ban must not wait for the last body to be read.
	select {
	case <-s.judged:
	case <-s.idle:
	case <-s.life.Done():
	case <-s.lease.Done():
		s.cut(s.lease.Err())
	}
	s.report()
	close(s.reported)
	select {
	case <-s.idle:
	case <-s.life.Done():
	case <-s.lease.Done():
		s.cut(s.lease.Err())
	}
	s.http.CloseIdleConnections()
	s.conns.close()
	s.t.mu.Lock()
	next := s.successor
	s.t.mu.Unlock()
	if next != nil {
		<-next.tried
	}
	s.bounded(s.lease.Release, "lease of the transport not released: it has to expire")
}

// report tells the server the one result of the lease, if there is one.
func (s *slot) report() {
	s.t.mu.Lock()
	result := s.result
	s.t.mu.Unlock()
	why := s.lease.Err()
	if result != ResultNone && !errors.Is(why, ErrEpochChanged) && !errors.Is(why, ErrUnknownLease) {
		s.bounded(func(ctx context.Context) error { return s.lease.Report(ctx, result, "") }, "report of the transport lost")
	}
}

func (s *slot) bounded(f func(context.Context) error, failed string) {
	c := s.t.o.Client
	ctx, cancel := context.WithTimeout(c.alive, finishTime/2)
	defer cancel()
	if err := f(ctx); err != nil {
		c.o.Logger.Warn(failed, "lease", s.lease, "error", err)
	}
}
