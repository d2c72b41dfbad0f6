package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	testToken    = "token-SENTINEL-7f3a"
	testUser     = "user-SENTINEL-51c2"
	testPassword = "password-SENTINEL-d09e"
	// enough is what a condition may take on a busy machine.
	enough = 30 * time.Second
)

// rig is a served API over a fleet that the test changes at will. A gate stands before it, in which tests put what goes
// wrong on the way.
type rig struct {
	t       testing.TB
	fleet   *fleet.Store
	clock   fakeClock
	ledger  *lease.Ledger
	leading atomic.Bool
	// url leads through the gate to the server at direct.
	url    string
	direct atomic.Pointer[string]
	// before is called for each request that passes the gate; when it returns true it has dealt with it.
	before atomic.Pointer[func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool]

	mu       sync.Mutex
	requests []string
	conns    map[string]int
}

func newRig(t testing.TB, change ...func(*lease.Options)) *rig {
	t.Helper()
	r := &rig{
		t: t, fleet: fleet.NewStore(), conns: map[string]int{},
		clock: fakeClock{clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), &atomic.Int32{}},
	}
	r.leading.Store(true)
	r.ledger = r.newLedger(change...)
	r.leadTo(r.ledger)
	r.url = r.gate(func() string { return *r.direct.Load() })
	return r
}

func (r *rig) newLedger(change ...func(*lease.Options)) *lease.Ledger {
	r.t.Helper()
	o := lease.Options{Fleet: r.fleet, Clock: r.clock.FakeClock}
	for _, c := range change {
		c(&o)
	}
	ledger, err := lease.New(o)
	must(r.t, err)
	r.background(ledger.Start)
	return ledger
}

// serve starts a server over ledger and returns where it is.
func (r *rig) serve(ledger *lease.Ledger) string {
	r.t.Helper()
	server, err := discovery.New(discovery.Options{
		BindAddress: "127.0.0.1:0", Token: testToken, Fleet: r.fleet, Ledger: ledger, Clock: r.clock.FakeClock, Leading: r.leading.Load,
		ShutdownTimeout: time.Second,
	})
	must(r.t, err)
	r.background(server.Start)
	addr, err := server.Addr(r.t.Context())
	must(r.t, err)
	return "http://" + addr.String()
}

// leadTo makes a server over ledger the one behind the gate.
func (r *rig) leadTo(ledger *lease.Ledger) { r.direct.Store(new(r.serve(ledger))) }

// background runs start until the test ends.
func (r *rig) background(start func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- start(ctx) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Logf("server: %v", err)
		}
	})
}

// gate returns the address of what forwards to where leads.
func (r *rig) gate(leads func() string) string {
	transport := &http.Transport{DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			to, _ := url.Parse(leads())
			p.SetURL(to)
		},
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		r.conns[req.RemoteAddr]++
		r.mu.Unlock()
		if f := r.before.Load(); f != nil && (*f)(w, req, forward) {
			return
		}
		forward.ServeHTTP(w, req)
	}))
	r.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// on puts f into the gate.
func (r *rig) on(f func(w http.ResponseWriter, req *http.Request, pass http.Handler) bool) {
	r.before.Store(&f)
}

// cutAnswers lets the next n requests that match reach the server and cuts off the connection instead of the answer.
func (r *rig) cutAnswers(n int32, match func(*http.Request) bool) {
	var left atomic.Int32
	left.Store(n)
	r.on(func(_ http.ResponseWriter, req *http.Request, pass http.Handler) bool {
		if !match(req) || left.Add(-1) < 0 {
			return false
		}
		pass.ServeHTTP(httptest.NewRecorder(), req)
		panic(http.ErrAbortHandler)
	})
}

func acquiring(req *http.Request) bool {
	return req.Method == http.MethodPost && req.URL.Path == leasesPath
}

// count returns how many requests so far were method and path; an empty path is any.
func (r *rig) count(method, path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, got := range r.requests {
		if got == method+" "+path {
			n++
		}
	}
	return n
}

// client returns one that is closed when the test ends.
func (r *rig) client(change ...func(*Options)) *Client {
	r.t.Helper()
	o := Options{BaseURL: r.url, Token: testToken, clock: r.clock}
	for _, c := range change {
		c(&o)
	}
	c, err := New(o)
	must(r.t, err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func realTime(o *Options) { o.clock = nil }

// put makes the fleet hold a proxy that is offered, unless change says otherwise.
func (r *rig) put(name string, change ...func(*fleet.Proxy)) {
	p := &fleet.Proxy{
		Key: types.NamespacedName{Namespace: "ns", Name: name}, UID: "uid-" + name, Mode: v1alpha1.ModeManaged, Provider: "local", Attempt: 1,
		Endpoint:    fleet.Endpoint{Scheme: "http", Host: name + ".proxies.test", Port: 3128},
		ExitAddress: "198.51.100.7", Attributes: map[string]string{"country": "de"}, Provisioned: true, Phase: v1alpha1.PhaseReady,
		Credentials: &provider.Credentials{Username: testUser, Password: testPassword, Revision: "1"},
		Cap:         1, ObservedAt: r.clock.Now(),
	}
	for _, c := range change {
		c(p)
	}
	key, subject := p.Key, p.Subject()
	r.fleet.Apply(p)
	r.fleet.SetVerdict(key, fleet.Verdict{Subject: subject, Health: fleet.Healthy, Latency: 12 * time.Millisecond})
}

func (r *rig) remove(name string) {
	r.fleet.Remove(types.NamespacedName{Namespace: "ns", Name: name}, "uid-"+name)
}

func unlimited(p *fleet.Proxy) { p.Cap = 0 }
func draining(p *fleet.Proxy)  { p.Draining = true }

func (r *rig) wantLive(n int) {
	r.t.Helper()
	eventually(r.t, "live leases", func() bool { return r.ledger.Live() == n })
}

// step moves the clock on by d once n goroutines of the client wait for it.
func (r *rig) step(d time.Duration, n int32) {
	r.t.Helper()
	eventually(r.t, "the client to wait", func() bool { return r.clock.asleep.Load() == n })
	r.clock.Step(d)
}

// steps moves the clock on by d again and again until the condition holds.
func (r *rig) steps(d time.Duration, what string, condition func() bool) {
	r.t.Helper()
	eventually(r.t, what, func() bool {
		if condition() {
			return true
		}
		r.clock.Step(d)
		return false
	})
}

func (r *rig) acquire(c *Client, req Request) *Lease {
	r.t.Helper()
	l, err := c.Acquire(r.t.Context(), req)
	must(r.t, err)
	return l
}
