package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// abandonTime is what a clean-up takes at most; what it misses expires by itself.
const abandonTime = 5 * time.Second

// inBackground runs f, which Close waits for. Only what Close waits for itself may call it.
func (c *Client) inBackground(f func(ctx context.Context)) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		ctx, cancel := context.WithTimeout(c.alive, abandonTime)
		defer cancel()
		f(ctx)
	}()
}

// abandon releases the lease that a may have got without hearing of it. The only way to learn of it is to ask again under
// the key, without waiting this time. If that makes a lease, it is released; if the key is known with the wait in the body,
// there is one to be had by asking with the wait, at once.
func (c *Client) abandon(ctx context.Context, a *acquisition) {
	r := call{method: http.MethodPost, path: leasesPath, body: a.req.body(0), key: a.key}
	answer, err := c.do(ctx, r, http.StatusCreated)
	if errors.Is(err, ErrIdempotencyMismatch) {
		r.body = a.body
		answer, err = c.do(ctx, r, http.StatusCreated)
	}
	if err != nil {
		c.o.Logger.DebugContext(ctx, "no lease found to clean up", "error", err)
		return
	}
	// Whatever else is wrong with the answer, the ID is enough.
	var w struct {
		LeaseID string `json:"leaseID"`
	}
	if json.Unmarshal(answer.body, &w) == nil && visible(w.LeaseID, maxIDBytes) {
		c.discard(ctx, w.LeaseID)
	}
}

// discard releases a lease that nobody got to see.
func (c *Client) discard(ctx context.Context, id string) {
	if _, err := c.do(ctx, call{method: http.MethodDelete, path: leasePath(id)}, http.StatusNoContent); err != nil {
		c.o.Logger.DebugContext(ctx, "a lease that nobody uses could not be released and has to expire", "error", err)
	}
}

func leasePath(id string) string { return leasesPath + "/" + url.PathEscape(id) }
