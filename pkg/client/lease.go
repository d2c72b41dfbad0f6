package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Lease is one proxy, held until it is released or lost. It is renewed in the background:
//
//	         renewed at half of what is left
//	          ┌──────┐
//	Acquire ──▶ held ──┬── draining, or the longest life is reached ──▶ ending ── ExpiresAt ──▶ lost (ErrExpired)
//	                   ├── unknown to the server, expired, proxy gone, epoch changed ─────────▶ lost
//	                   └── Release, Client.Close ───────────────────────────────────────────▶ released
//
// Once Done is closed the proxy may be somebody else's: send nothing through it any more. All methods are safe for
// concurrent use.
type Lease struct {
	c         *Client
	id, epoch string
	req       Request

	done, ending chan struct{}
	// stopped is closed when the renewal has ended.
	stopped chan struct{}
	// cancel ends the renewal.
	cancel context.CancelFunc

	mu      sync.Mutex
	proxy   Proxy
	url     *url.URL
	given   time.Duration
	expires time.Time
	err     error
	// noRenewal: ending is closed.
	noRenewal bool
	// stopExpiry takes the timer for expires back.
	stopExpiry func() bool

	// releasing holds a token while nobody releases.
	releasing chan struct{}
	released  bool
}

func newLease(c *Client, g grant, req Request, since time.Time) *Lease {
	l := &Lease{
		c: c, id: g.id, epoch: g.epoch, req: req, proxy: g.proxy, url: g.proxy.proxyURL(), given: g.ttl, expires: since.Add(g.ttl),
		done: make(chan struct{}), ending: make(chan struct{}), stopped: make(chan struct{}), releasing: make(chan struct{}, 1),
		stopExpiry: func() bool { return true },
	}
	l.releasing <- struct{}{}
	return l
}

// ID is what the server knows the lease by. Whoever has it and the token can release the lease.
func (l *Lease) ID() string { return l.id }

// Target is the host name the lease was asked for, in canonical form; empty for none in particular.
func (l *Lease) Target() string { return l.req.Target }

// Proxy returns the proxy as of the last renewal: credentials may change while the lease lasts. It does not block.
func (l *Lease) Proxy() Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proxy
}

// HTTPProxy returns the proxy's URL with user name and password; it is made for http.Transport.Proxy and Colly's
// SetProxyFunc. It ignores its argument, does not block, and fails with Err once the lease is over: a transport then opens
// no connection any more. It does not end those that are open; call the transport's CloseIdleConnections when Done is
// closed, or use Transport. Never log the URL other than by its Redacted method.
func (l *Lease) HTTPProxy(*http.Request) (*url.URL, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, fmt.Errorf("client: the lease is over: %w", l.err)
	}
	u := *l.url
	return &u, nil
}

// ExpiresAt is until when the lease lasts if it is not renewed again. It is counted on this machine's clock from when the
// request for it was sent, so it is never later than on the server, however far apart the clocks are.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Done is closed when the lease is over: lost or released. Err then says which.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Ending is closed when the lease will not be renewed any more, because its proxy is draining or its longest life is
// reached. It can be used until ExpiresAt: finish, release and acquire another one. It also is closed when the lease is over.
func (l *Lease) Ending() <-chan struct{} { return l.ending }

// Err returns nil until Done is closed, then what ended the lease: ErrReleased, ErrExpired, ErrProxyGone, ErrUnknownLease or
// ErrEpochChanged.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Format implements fmt.Formatter: it names proxy and expiry, neither ID nor credentials.
func (l *Lease) Format(f fmt.State, _ rune) {
	p := l.Proxy()
	_, _ = io.WriteString(f, "lease on "+p.Namespace+"/"+p.Name+" until "+l.ExpiresAt().UTC().Format(time.RFC3339))
}

// LogValue implements slog.LogValuer, like Format.
func (l *Lease) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(l)) }

// start begins renewal and the watch over the expiry. c.mu is held.
func (l *Lease) start() {
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(l.c.alive)
	l.mu.Lock()
	l.armExpiry()
	l.mu.Unlock()
	go func() {
		defer l.c.leave()
		defer close(l.stopped)
		l.keep(ctx)
	}()
}

// armExpiry sets the timer for l.expires. l.mu is held.
func (l *Lease) armExpiry() {
	l.stopExpiry()
	l.stopExpiry = l.c.o.clock.AfterFunc(l.expires.Sub(l.c.o.clock.Now()), func() {
		if !l.c.o.clock.Now().Before(l.ExpiresAt()) {
			l.lose(ErrExpired)
		}
	})
}

// lose ends the lease for another reason than that its holder released it.
func (l *Lease) lose(why error) {
	if l.end(why) {
		l.c.o.Logger.Warn("lease lost", "lease", l, "error", why)
	}
}

// end closes Done, once. It reports whether this call did.
func (l *Lease) end(why error) bool {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = why
		l.stopExpiry()
		l.closeEnding()
		close(l.done)
	}
	l.mu.Unlock()
	if first {
		l.cancel()
		l.c.unregister(l)
	}
	return first
}

// closeEnding does so once. l.mu is held.
func (l *Lease) closeEnding() {
	if !l.noRenewal {
		l.noRenewal = true
		close(l.ending)
	}
}
