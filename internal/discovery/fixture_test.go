package discovery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	testToken    = "token-SENTINEL-7f3a"
	testUser     = "user-SENTINEL-51c2"
	testPassword = "password-SENTINEL-d09e"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a served API over a fleet that the test changes at will.
type fixture struct {
	fleet   *fleet.Store
	clock   *clocktesting.FakeClock
	ledger  *lease.Ledger
	server  *Server
	addr    string
	client  *http.Client
	logs    *logBuffer
	metrics *recorder
	// stop ends the server, wait returns what Start returned.
	stop context.CancelFunc
	wait func() error
}

func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{fleet: fleet.NewStore(), clock: clocktesting.NewFakeClock(epoch), logs: &logBuffer{}, metrics: &recorder{}}
	ledger, err := lease.New(lease.Options{Fleet: f.fleet, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	f.ledger = ledger
	o := Options{
		BindAddress: "127.0.0.1:0", Token: testToken, Fleet: f.fleet, Ledger: ledger, Metrics: f.metrics,
		Log: funcr.New(f.logs.add, funcr.Options{Verbosity: 10}), Clock: f.clock,
	}
	for _, c := range change {
		c(&o)
	}
	if f.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- f.server.Start(ctx) }()
	f.stop, f.wait = stop, sync.OnceValue(func() error { return <-result })
	addr, err := f.server.Addr(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.addr = addr.String()
	transport := &http.Transport{}
	f.client = &http.Client{Transport: checkedTransport{t, transport}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := f.wait(); err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return f
}

func open(o *Options) { o.Token = "" }

// put makes the fleet hold a proxy that is offered, unless change says otherwise.
func (f *fixture) put(name string, change ...func(*fleet.Proxy)) {
	p := &fleet.Proxy{
		Key: types.NamespacedName{Namespace: "ns", Name: name}, UID: "uid-" + name, Mode: v1alpha1.ModeManaged, Provider: "local", Attempt: 1,
		Endpoint:    fleet.Endpoint{Scheme: "http", Host: "192.0.2.7", Port: 3128},
		ExitAddress: "198.51.100.7", Attributes: map[string]string{"country": "de"}, Provisioned: true, Phase: v1alpha1.PhaseReady,
		Credentials: &provider.Credentials{Username: testUser, Password: testPassword, Revision: "1"},
		ObservedAt:  epoch,
	}
	// Two Managed proxies may not share an address.
	p.Endpoint.Host = name + ".proxies.test"
	for _, c := range change {
		c(p)
	}
	key, subject := p.Key, p.Subject()
	f.fleet.Apply(p)
	f.fleet.SetVerdict(key, fleet.Verdict{Subject: subject, Health: fleet.Healthy, Latency: 12 * time.Millisecond})
}

func (f *fixture) unhealthy(name string) {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	f.fleet.SetVerdict(key, fleet.Verdict{Subject: f.fleet.Get(key).Subject(), Health: fleet.Unhealthy})
}

func withCap(n int32) func(*fleet.Proxy) { return func(p *fleet.Proxy) { p.Cap = n } }

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	text string
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var body errorBody
	if err := json.Unmarshal([]byte(a.text), &body); err != nil || body.Message == "" {
		t.Errorf("%d is not a JSON error with a message: %q", a.StatusCode, a.text)
	}
	return body.Error
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(a.text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		t.Fatalf("%q: %v", a.text, err)
	}
}

// do sends one authenticated request.
func (f *fixture) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	return f.send(t, req)
}

func (f *fixture) send(t *testing.T, req *http.Request) answer {
	t.Helper()
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp, string(text)}
}

func (f *fixture) want(t *testing.T, status int, method, path, body string) answer {
	t.Helper()
	a := f.do(t, method, path, body)
	if a.StatusCode != status {
		t.Fatalf("%s %s = %d %s, want %d", method, path, a.StatusCode, a.text, status)
	}
	return a
}

func (f *fixture) acquire(t *testing.T, body string) leaseView {
	t.Helper()
	var l leaseView
	f.want(t, http.StatusCreated, http.MethodPost, "/v1/leases", body).into(t, &l)
	return l
}

// raw sends bytes as they are, closes its own half of the connection and reads the first answer.
func (f *fixture) raw(t *testing.T, request []byte) answer {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server may answer and close before it has read everything.
	go func() {
		_, _ = io.Copy(conn, bytes.NewReader(request))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	method, _, _ := strings.Cut(string(request[:min(16, len(request))]), " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	// What net/http refuses by itself has no length: the reset for the unread rest may come in place of its end.
	if err != nil && (resp.ContentLength >= 0 || !errors.Is(err, syscall.ECONNRESET)) {
		t.Fatalf("answer cut off: %v", err)
	}
	a := answer{resp, string(text)}
	if req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request))); err == nil {
		checkContract(t, req.Method, req.URL, a)
	} else if !a.ofLibrary() {
		t.Errorf("what is no HTTP (%v) got an answer of the API: %d %.300s", err, a.StatusCode, a.text)
	}
	return a
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) add(prefix, args string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.WriteString(prefix + " " + args + "\n")
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

type recorder struct {
	mu       sync.Mutex
	outcomes []string
	acquired []string // with what is measured besides
	causes   []string
	requests []string
	shakes   []string // the reasons of handshakes that failed
	panics   any
}

func (r *recorder) HandshakeFailed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shakes = append(r.shakes, reason)
}

func (r *recorder) handshakes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.shakes, " ")
}

func (r *recorder) NoMatch(cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes = append(r.causes, cause)
}

func (r *recorder) Request(route string, status int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, fmt.Sprint(route, " ", status, " ", took))
}

func (r *recorder) LeaseRequest(outcome string, waits bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, outcome)
	r.acquired = append(r.acquired, fmt.Sprint(outcome, " ", waits, " ", took))
	if r.panics != nil {
		panic(r.panics)
	}
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.outcomes, " ")
	r.outcomes = nil
	return out
}
