package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const leasesPath = "/v1/leases"

// Acquire leases a proxy and keeps the lease renewed until it is released or lost. It blocks while it waits for a proxy (up
// to Request.Wait) and while it retries: standbys, overload and lost connections are tried again for 10 s, or for Wait when
// that is longer. What the server asks to wait between two tries is honoured; when it is more than what is left, Acquire
// gives up at once.
//
// All tries of one call share an idempotency key, so a lost answer never makes a second lease. When Acquire gives up while it
// does not know what became of its last try, it has the lease, if there is one, released in the background.
//
// Errors: *NoMatchError when no proxy is free, at once when none matches at all; *APIError for other refusals;
// ctx's error; ErrClosed; ErrBadAnswer; and an error that names the field when req is out of bounds.
func (c *Client) Acquire(ctx context.Context, req Request) (*Lease, error) {
	req, err := req.checked()
	if err != nil {
		return nil, err
	}
	if !c.enter() {
		return nil, ErrClosed
	}
	defer c.leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := during(ctx, c.open)
	defer cancel()
	a := &acquisition{c: c, req: req, key: rand.Text(), start: c.o.clock.Now()}
	l, err := a.run(ctx)
	if err != nil && a.unsure {
		c.inBackground(func(ctx context.Context) { c.abandon(ctx, a) })
	}
	return l, err
}

// acquisition is one call of Acquire.
type acquisition struct {
	c     *Client
	req   Request
	key   string
	start time.Time

	// body is that of the last try, slice what it asks the server to wait.
	body  []byte
	slice time.Duration
	// unsure: there may be a lease under key that we have not heard of. The key is bound to the body, so that stays as it is
	// meanwhile.
	unsure bool
	// since is the earliest time at which such a lease, or the one of the last try, can have been granted.
	since time.Time
}

func (a *acquisition) run(ctx context.Context) (*Lease, error) {
	var b backoff
	for {
		l, err := a.try(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, a.interrupted(ctx, err)
		}
		limit := a.start.Add(a.req.Wait)
		var none *NoMatchError
		switch {
		case errors.As(err, &none):
			if none.Considered == 0 && none.RetryAfter == 0 {
				return nil, err
			}
		case transient(err), errors.Is(err, ErrEpochChanged), lost(err):
			limit = a.start.Add(max(a.req.Wait, patience))
		default:
			return nil, err
		}
		pause := b.next(err)
		if a.c.o.clock.Now().Add(pause).After(limit) {
			return nil, err
		}
		if a.c.pause(ctx, err, pause) != nil {
			return nil, a.interrupted(ctx, err)
		}
	}
}

// interrupted says why ctx ended and what stood in the way until then.
func (a *acquisition) interrupted(ctx context.Context, last error) error {
	why := ended(ctx)
	if errors.Is(last, why) {
		return why
	}
	return fmt.Errorf("%w (the last try: %w)", why, last)
}

// try asks once.
func (a *acquisition) try(ctx context.Context) (*Lease, error) {
	now := a.c.o.clock.Now()
	left := max(0, a.req.Wait-now.Sub(a.start))
	if !a.unsure {
		a.slice = min(left, maxSlice).Round(time.Second)
		a.body, a.since = a.req.body(a.slice), now
	}
	before := a.unsure
	a.unsure = true
	answer, err := a.c.try(ctx, call{
		method: http.MethodPost, path: leasesPath, body: a.body, key: a.key, extra: min(a.slice, left),
	})
	if err != nil {
		a.unsure = before || mayHaveArrived(err)
		return nil, err
	}
	if answer.status == http.StatusCreated {
		return a.take(ctx, answer)
	}
	err = answer.failure()
	var api *APIError
	switch {
	case errors.Is(err, ErrNoMatch):
		// The ledger looked for the key first: there is no lease under it.
		a.unsure = false
	case errors.As(err, &api) && api.Code != "":
		// This try made no lease; what an earlier one did is as open as before.
		a.unsure = before
	}
	return nil, err
}

// mayHaveArrived reports whether the server may have got the request that failed with err.
func mayHaveArrived(err error) bool {
	var lost *transportError
	return errors.Is(err, ErrBadAnswer) || (errors.As(err, &lost) && !dialling(err))
}

// take makes a lease of the server's answer.
func (a *acquisition) take(ctx context.Context, answer *answer) (*Lease, error) {
	g, err := answer.grant()
	if err != nil {
		return nil, err
	}
	if g.ttl == 0 {
		return nil, wrong("ttlSeconds", "is 0")
	}
	a.unsure = false
	a.c.observe(g.epoch, answer.number)
	l := newLease(a.c, g, a.req, a.since)
	if err = l.confirm(ctx); err == nil {
		err = a.c.register(l)
	}
	if err != nil {
		a.c.inBackground(func(ctx context.Context) { a.c.discard(ctx, g.id) })
		return nil, err
	}
	return l, nil
}
