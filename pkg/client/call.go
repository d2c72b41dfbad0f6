package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxAnswerBytes bounds every answer that is read.
const maxAnswerBytes = 1 << 20

var errAnswerTooLarge = fmt.Errorf("%w: it is larger than %d bytes", ErrBadAnswer, maxAnswerBytes)

// call is one request to the API.
type call struct {
	method string
	// path has its segments joined by /, each escaped by the caller.
	path  string
	query url.Values
	body  []byte
	// key is the idempotency key, empty for none.
	key string
	// extra is what the server may take longer than other requests; within, when set, another bound than RequestTimeout if
	// that is longer.
	extra, within time.Duration
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	// at is when the request was sent, number its place among the requests.
	at     time.Time
	number uint64
}

// transportError is a try without an answer: nobody knows whether the server did what was asked.
type transportError struct{ err error }

func (e *transportError) Error() string { return "no answer from the server: " + e.err.Error() }

func (e *transportError) Unwrap() error { return e.err }

// try sends one request and reads the answer, whatever its status. A token that is refused is asked for again, and the
// request repeated once if it has changed. Errors: *transportError, errAnswerTooLarge, what the TokenSource returned, ctx's.
func (c *Client) try(ctx context.Context, r call) (*answer, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	a, err := c.send(ctx, r, token)
	if err != nil || a.status != http.StatusUnauthorized {
		return a, err
	}
	if renewed, err := c.token(ctx); err == nil && renewed != token {
		return c.send(ctx, r, renewed)
	}
	return a, nil
}

func (c *Client) token(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	token, err := c.o.TokenSource(ctx)
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return "", fmt.Errorf("client: token: %w", err)
	}
	return token, nil
}

func (c *Client) send(ctx context.Context, r call, token string) (*answer, error) {
	whole := ctx
	limit := c.o.RequestTimeout + r.extra
	if r.within > 0 {
		limit = min(limit, r.within)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := c.request(ctx, r, token)
	if err != nil {
		return nil, err
	}
	a := &answer{at: c.o.clock.Now(), number: c.next()}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, gaveUp(whole, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read, or is given up
	a.status, a.header = resp.StatusCode, resp.Header
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, gaveUp(whole, err)
	case len(a.body) > maxAnswerBytes:
		return nil, errAnswerTooLarge
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, r call, token string) (*http.Request, error) {
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", bare(err))
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	return req, nil
}

// gaveUp says why a try failed; when the caller ended it, with the caller's reason.
func gaveUp(whole context.Context, err error) error {
	if whole.Err() != nil && !dialling(err) {
		return &transportError{ended(whole)}
	}
	return &transportError{bare(err)}
}

// bare takes off what net/http puts around an error: the URL, in which the ID of a lease may stand.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// dialling reports whether err happened before there was a connection.
func dialling(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// next numbers a request.
func (c *Client) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.sent
}
