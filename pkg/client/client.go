package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// closeTime is what Close takes at most when its context has no deadline.
	closeTime = 10 * time.Second
	// closeWorkers is how many leases Close releases at one time.
	closeWorkers = 16
)

// Client talks to the API on behalf of one principal. Make it with New and end it with Close. All methods are safe for
// concurrent use.
type Client struct {
	o    Options
	base *url.URL
	http *http.Client
	// own: the connections of http are nobody else's.
	own bool

	// open ends when Close begins, alive when its patience does.
	open, alive   context.Context //nolint:containedctx // the life of the client, which no call brings along
	shut, kill    context.CancelFunc
	closed        chan struct{}
	wg            sync.WaitGroup // calls of Acquire, renewals, clean-ups
	mu            sync.Mutex
	closing       bool
	leases        map[*Lease]struct{}
	epoch, before string
	// Requests and changes of epoch are numbered, to tell a new epoch from an answer that was long under way.
	sent, epochSince uint64
}

// New returns a client. It opens no connection yet and does not block. It errors when an option is missing, contradicts
// another or is out of bounds; the error names the option.
func New(o Options) (*Client, error) {
	base, err := o.complete()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, base: base, closed: make(chan struct{}), leases: map[*Lease]struct{}{}}
	c.http, c.own = httpClient(o.HTTPClient)
	c.open, c.shut = context.WithCancel(context.Background())
	c.alive, c.kill = context.WithCancel(context.Background())
	return c, nil
}

// Close makes calls of Acquire that are under way return ErrClosed, ends all renewals, releases every lease and closes idle
// connections. It blocks until that is done, at most until ctx ends or, when ctx has no deadline, 10 s; no goroutine of the
// client is left then. What could not be released by then expires by itself; the error says how it failed. Calling it again
// waits for the first call and returns nil.
func (c *Client) Close(ctx context.Context) error {
	if !c.beginClose() {
		select {
		case <-c.closed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(c.closed)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeTime)
		defer cancel()
	}
	defer context.AfterFunc(ctx, c.kill)()
	defer c.kill()
	c.shut()
	err := c.releaseAll(ctx)
	c.wg.Wait()
	// A call that was under way may have got its lease meanwhile; it was not registered and is released already.
	if c.own {
		c.http.CloseIdleConnections()
	}
	return err
}

func (c *Client) beginClose() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.closing
	c.closing = true
	return first
}

func (c *Client) releaseAll(ctx context.Context) error {
	c.mu.Lock()
	queue := make(chan *Lease, len(c.leases))
	for l := range c.leases {
		queue <- l
	}
	c.mu.Unlock()
	close(queue)
	var wg sync.WaitGroup
	errs := make([]error, closeWorkers)
	for i := range errs {
		wg.Go(func() {
			for l := range queue {
				if err := l.Release(ctx); err != nil && errs[i] == nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// enter counts a goroutine or call that Close waits for; leave ends it. It is false once Close began.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.wg.Add(1)
	return true
}

func (c *Client) leave() { c.wg.Done() }

// during returns a ctx that also ends with life, which is c.open or c.alive.
func during(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ended returns why ctx, made by during, ended.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return ctx.Err()
}
