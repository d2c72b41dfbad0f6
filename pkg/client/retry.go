package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// patience is for how long trouble between client and server is retried: standbys, overload, lost connections.
	patience = 10 * time.Second
	// The pause between two tries when the server names none: doubled each time, with jitter.
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	// maxRetryAfter is the longest pause that a server is believed to want.
	maxRetryAfter = time.Hour
)

// do sends r until there is an answer of success, whose status is one of wanted. Trouble is retried for as long as
// patience lasts; for that r must be idempotent. Errors: *APIError, *NoMatchError, those of try.
func (c *Client) do(ctx context.Context, r call, wanted int) (*answer, error) {
	limit := c.o.clock.Now().Add(patience)
	var b backoff
	for {
		a, err := c.try(ctx, r)
		if err == nil {
			if a.status == wanted {
				return a, nil
			}
			err = a.failure()
		}
		switch {
		case ctx.Err() != nil:
			return nil, ended(ctx)
		case !transient(err):
			return nil, err
		}
		pause := b.next(err)
		if c.o.clock.Now().Add(pause).After(limit) {
			return nil, err
		}
		if err := c.pause(ctx, err, pause); err != nil {
			return nil, err
		}
	}
}

// pause prepares for the next try: a new connection where the old one leads nowhere, and the time in between.
func (c *Client) pause(ctx context.Context, because error, d time.Duration) error {
	c.o.Logger.DebugContext(ctx, "trying again", "error", because, "pause", d)
	if errors.Is(because, ErrNotLeader) {
		// All idle connections may lead to the same standby.
		c.http.CloseIdleConnections()
	}
	return c.sleep(ctx, d)
}

// sleep returns an error when ctx ended first.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	t := c.o.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// transient reports whether the same request may succeed a little later.
func transient(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		switch {
		case api.Code == "not_leader", api.Code == "overloaded":
			return true
		case api.Code != "":
			return false
		}
		// A gateway's own answer, while the server behind it restarts.
		switch api.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var lost *transportError
	return errors.As(err, &lost)
}

// backoff grows from try to try. Its zero value is ready.
type backoff struct{ tries int }

// next returns the pause before the next try: what the server asked for plus up to a fifth, else half to the whole of what
// has doubled so far. Whoever is refused at one moment thus comes back at different ones.
func (b *backoff) next(err error) time.Duration {
	if after := retryAfterOf(err); after > 0 {
		return after + spread(after/5)
	}
	d := min(maxPause, firstPause<<min(b.tries, 10))
	b.tries++
	return d/2 + spread(d/2)
}

// spread returns a random duration from 0 up to most.
func spread(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most + 1) //nolint:gosec // spreads load, guards nothing
}

func retryAfterOf(err error) time.Duration {
	var api *APIError
	var none *NoMatchError
	switch {
	case errors.As(err, &api):
		return api.RetryAfter
	case errors.As(err, &none):
		return none.RetryAfter
	}
	return 0
}

// parseRetryAfter reads seconds or a date; 0 when there is neither. now is the time of the server where it names one.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}
