package client

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// The shortest a renewal may take, and the shortest pause between two, however little is left.
const (
	minRenewTime  = 250 * time.Millisecond
	minRenewPause = 20 * time.Millisecond
)

type wireTTL struct {
	TTLSeconds int64 `json:"ttlSeconds,omitempty"`
}

// keep renews the lease until it is over, ends by itself, or ctx ends.
func (l *Lease) keep(ctx context.Context) {
	for l.c.sleep(ctx, l.untilRenewal()) == nil && l.renew(ctx) {
	}
}

// untilRenewal is half of what is left, less up to a tenth: leases granted at one moment are renewed at different ones, and
// as much time is left for retries as has passed.
func (l *Lease) untilRenewal() time.Duration {
	left := l.left()
	return left/2 - spread(left/10)
}

func (l *Lease) left() time.Duration { return max(0, l.ExpiresAt().Sub(l.c.o.clock.Now())) }

// renew tries until the server has decided, which at the latest the expiry does. It reports whether there is to be
// another renewal.
func (l *Lease) renew(ctx context.Context) bool {
	var b backoff
	for {
		more, err := l.renewOnce(ctx)
		switch {
		case err == nil:
			return more
		case ctx.Err() != nil:
			return false
		case lost(err):
			l.lose(reason(err))
			return false
		case !worthRenewing(err):
			l.c.o.Logger.Info("lease is not renewed any more", "lease", l, "error", err)
			l.mu.Lock()
			l.closeEnding()
			l.mu.Unlock()
			return false
		}
		l.c.o.Logger.Warn("lease not renewed yet", "lease", l, "error", err)
		// However long the server wants to be left alone: there has to be another try before it is too late.
		pause := min(b.next(err), max(l.left()/4, minRenewPause))
		if l.c.pause(ctx, err, pause) != nil {
			return false
		}
	}
}

// renewOnce is one try. more is false when the lease was not renewed for as long as before: its longest life is reached.
func (l *Lease) renewOnce(ctx context.Context) (more bool, err error) {
	a, err := l.c.try(ctx, call{
		method: http.MethodPost, path: leasePath(l.id) + "/renew", body: encode(wireTTL{int64(l.req.TTL / time.Second)}),
		within: max(l.left()/2, minRenewTime),
	})
	if err != nil {
		return false, err
	}
	if a.status != http.StatusOK {
		return false, a.failure()
	}
	g, err := a.grant()
	if err != nil {
		return false, err
	}
	l.c.observe(g.epoch, a.number)
	switch {
	case g.epoch != l.epoch:
		return false, ErrEpochChanged
	case g.id != l.id:
		return false, wrong("leaseID", "is that of another lease")
	}
	return l.extend(g, a.at), nil
}

func (l *Lease) extend(g grant, sent time.Time) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.proxy, l.url = g.proxy, g.proxy.proxyURL()
	// Never earlier: the server rounds down what is left of the longest life.
	if until := sent.Add(g.ttl); until.After(l.expires) {
		l.expires = until
	}
	if l.cancel != nil {
		l.armExpiry()
	}
	if g.ttl < l.given {
		l.closeEnding()
		return false
	}
	return true
}

// confirm renews a lease once before anybody gets to see it, when much of its TTL may have passed already: it was granted
// at an unknown moment of a long wait, or by a try whose answer was lost.
func (l *Lease) confirm(ctx context.Context) error {
	var b backoff
	for limit := l.c.o.clock.Now().Add(patience); l.left() < l.given/2; {
		_, err := l.renewOnce(ctx)
		switch {
		case err == nil, ctx.Err() == nil && !lost(err) && l.left() > l.given/8:
			// What is left will do for the renewal in the background.
			return nil
		case ctx.Err() != nil:
			return ended(ctx)
		case !transient(err):
			return err
		}
		pause := b.next(err)
		if l.c.o.clock.Now().Add(pause).After(limit) {
			return err
		}
		if err := l.c.pause(ctx, err, pause); err != nil {
			return err
		}
	}
	return nil
}

// lost reports whether err says that the lease is over.
func lost(err error) bool { return reason(err) != nil }

func reason(err error) error {
	for _, why := range []error{ErrUnknownLease, ErrExpired, ErrProxyGone, ErrEpochChanged} {
		if errors.Is(err, why) {
			return why
		}
	}
	return nil
}

// worthRenewing reports whether a later try may succeed. A token may be about to be rotated, a nonsensical answer may come
// from something that stands in for the server for a while; every other refusal is final.
func worthRenewing(err error) bool {
	var api *APIError
	return !errors.As(err, &api) || transient(err) || api.Code == "" || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrInternal)
}
