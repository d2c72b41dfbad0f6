package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Defaults of TransportOptions.
const (
	DefaultIdleTimeout = 30 * time.Second
	DefaultMaxLeases   = 100
)

const (
	maxMaxLeases   = 100_000
	maxIdleTimeout = time.Hour
)

// TransportOptions configure a Transport.
type TransportOptions struct {
	// Client leases the proxies. Required. Close the transport before the client.
	Client *Client
	// Lease says what proxies are leased; its Target is filled in for every lease. With its Wait at 0, a request fails with
	// *NoMatchError when no proxy is free at that moment.
	Lease Request
	// RequestsPerLease is after how many requests a target host gets another lease: 1 for a lease of its own for every
	// request, 0 for no bound.
	RequestsPerLease int
	// ConcurrencyPerLease is how many requests share a lease at one time, counted until their bodies are closed; further
	// ones get further leases. 0 for no bound.
	ConcurrencyPerLease int
	// IdleTimeout is after what time without a request a lease is released: at most 1 h, 30 s when 0.
	IdleTimeout time.Duration
	// MaxLeases bounds the leases of all target hosts together, 1 to 100,000; 100 when 0. Beyond it, the lease that has been
	// idle longest gives way; when none is idle, requests wait. A dead proxy's lease does not count while it is replaced.
	MaxLeases int
	// Classify judges every answer, or the error in its place; nil for DefaultClassify. It must not read or close the body,
	// and is called concurrently. After ResultRateLimited and ResultBanned the lease gets no further request.
	Classify func(*http.Response, error) Result
	// Target returns the host name to lease for, as CanonicalTarget takes it, or "" for none in particular; nil for the host of
	// the request's URL. It is called concurrently and must not change the request.
	Target func(*http.Request) (string, error)
	// Base is what the transport of each lease is a clone of, for TLS settings and time limits; its Proxy and
	// OnProxyConnectResponse are replaced, its Dial and DialTLS are not used. nil for http.DefaultTransport's settings, with
	// at most 10 s to reach a proxy.
	Base *http.Transport
}

// Transport is an http.RoundTripper whose requests go through leased proxies and that reports for the caller. For each
// target host it leases a proxy, sends requests through it, judges the answers, and reports and releases the lease when it
// is through with it:
//
//	             RequestsPerLease used, banned or rate limited,
//	             idle, draining, lost, dead proxy, Close            last body closed
//	lease in use ───────────────────────────────────────▶ retired ──────────────────▶ reported, released
//
// Every lease has connections of its own, which end with it: nothing is ever sent through a lost lease, and a request that is
// under way when its lease is lost is cut off. One report is made per lease: a ban at once, and before RoundTrip returns, so
// that the next request gets another exit; otherwise "ok" at the end.
//
// When a proxy turns out to be dead (it cannot be reached, refuses the credentials, has no room, or breaks off), its lease is
// replaced and the request sent once more through another, provided that its body can be rewound and that the request was not
// sent yet or may be repeated (GET, HEAD, OPTIONS, TRACE, or an Idempotency-Key).
//
// A lease is held until the bodies of its responses are closed. A caller that holds bodies of MaxLeases hosts open and then
// asks for another waits for itself: give requests a deadline. All methods are safe for concurrent use.
type Transport struct {
	o  TransportOptions
	wg sync.WaitGroup // the goroutines of slots

	mu     sync.Mutex
	closed bool
	slots  map[*slot]struct{}
	// open are the slots that take requests, by target.
	open map[string][]*slot
	// count is how many slots count against MaxLeases.
	count int
	// changed is closed and replaced when there may be room.
	changed chan struct{}
}

// NewTransport returns a Transport. It does not block. It errors when an option is missing or out of bounds; the error
// names it.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Client == nil {
		return nil, errors.New("client: TransportOptions.Client is required")
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.MaxLeases == 0 {
		o.MaxLeases = DefaultMaxLeases
	}
	switch {
	case o.Lease.Target != "":
		return nil, errors.New("client: TransportOptions.Lease.Target must be empty: it is filled in for every lease")
	case o.RequestsPerLease < 0:
		return nil, fmt.Errorf("client: RequestsPerLease %d is negative", o.RequestsPerLease)
	case o.ConcurrencyPerLease < 0:
		return nil, fmt.Errorf("client: ConcurrencyPerLease %d is negative", o.ConcurrencyPerLease)
	case o.IdleTimeout < 0 || o.IdleTimeout > maxIdleTimeout:
		return nil, fmt.Errorf("client: IdleTimeout %v is not within 0 and %v", o.IdleTimeout, maxIdleTimeout)
	case o.MaxLeases < 1 || o.MaxLeases > maxMaxLeases:
		return nil, fmt.Errorf("client: MaxLeases %d is not within 1 and %d", o.MaxLeases, maxMaxLeases)
	}
	if _, err := o.Lease.checked(); err != nil {
		return nil, err
	}
	if o.Classify == nil {
		o.Classify = DefaultClassify
	}
	if o.Target == nil {
		o.Target = func(req *http.Request) (string, error) { return req.URL.Hostname(), nil }
	}
	if o.Base == nil {
		o.Base = baseTransport()
	}
	return &Transport{o: o, slots: map[*slot]struct{}{}, open: map[string][]*slot{}, changed: make(chan struct{})}, nil
}

func baseTransport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.DialContext = nil
		return t
	}
	return &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
}

// RoundTrip implements http.RoundTripper. It blocks until there is a lease and then a response header, at most until the
// request's context ends. Errors: that context's; those of Client.Acquire; *ProxyError; ErrClosed; why the lease was lost; or
// what net/http says. None holds the proxy's password.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	target, err := t.target(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	s, err := t.take(req.Context(), target)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, again, err := s.send(req)
	if !again {
		t.put(s)
		return resp, err
	}
	second, takeErr := t.takeInstead(req.Context(), s)
	if takeErr != nil {
		return nil, fmt.Errorf("%w (no other proxy: %w)", err, takeErr)
	}
	if req, takeErr = rewound(req); takeErr != nil {
		t.put(second)
		return nil, takeErr
	}
	resp, again, err = second.send(req)
	if again {
		t.retire(second)
	}
	t.put(second)
	return resp, err
}

func (t *Transport) target(req *http.Request) (string, error) {
	if req.URL == nil || (req.URL.Scheme != "http" && req.URL.Scheme != "https") {
		return "", errors.New("client: only http and https URLs can be requested")
	}
	host, err := t.o.Target(req)
	if err != nil || host == "" {
		return "", err
	}
	return CanonicalTarget(host)
}

// rewound returns a copy of req whose body stands at its beginning.
func rewound(req *http.Request) (*http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	copied := *req
	copied.Body = body
	return &copied, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// CloseIdleConnections releases, in the background, the leases that no request uses, and closes all idle connections. It
// does not block. http.Client's method of that name calls it.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.slots {
		if s.users == 0 {
			t.retireLocked(s)
		}
		if s.http != nil {
			s.http.CloseIdleConnections()
		}
	}
}

// Close cuts off the requests that are under way, reports and releases all leases, and lets further requests fail with
// ErrClosed. It blocks until that is done, at most until ctx ends, and returns ctx's error then. Calling it again is no error.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for s := range t.slots {
		t.retireLocked(s)
		s.cut(ErrClosed)
	}
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
