package client

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

// web is a rig with real forward proxies, each with an exit address of its own, and an origin that every host name leads
// to, over http and https.
type web struct {
	*rig
	c           *Client
	plain, safe *httptest.Server
	// answer is what the origin does; it says "hello" when unset.
	answer atomic.Pointer[http.HandlerFunc]

	mu    sync.Mutex
	exits []string
}

func newWeb(t testing.TB, change ...func(*Options)) *web {
	t.Helper()
	w := &web{rig: newRig(t)}
	origin := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		exit, _, _ := net.SplitHostPort(r.RemoteAddr)
		w.mu.Lock()
		w.exits = append(w.exits, exit)
		w.mu.Unlock()
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the proxy's credentials reached the origin")
		}
		if f := w.answer.Load(); f != nil {
			(*f)(rw, r)
			return
		}
		_, _ = io.WriteString(rw, "hello")
	})
	w.plain, w.safe = httptest.NewServer(origin), httptest.NewUnstartedServer(origin)
	w.safe.EnableHTTP2 = true
	w.safe.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that were given up
	w.safe.StartTLS()
	t.Cleanup(func() {
		for _, s := range []*httptest.Server{w.plain, w.safe} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	w.c = w.client(change...)
	return w
}

// transport returns one that is closed when the test ends.
func (w *web) transport(o TransportOptions) *Transport {
	w.t.Helper()
	o.Client = w.c
	trusted := w.safe.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	o.Base = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "example.com"}, ForceAttemptHTTP2: true}
	tr, err := NewTransport(o)
	must(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		if err := tr.Close(ctx); err != nil {
			w.t.Errorf("Close: %v", err)
		}
	})
	return tr
}

// proxy starts a forward proxy that leaves from exit, and puts it into the fleet under name. stop ends it.
func (w *web) proxy(name, exit string, change ...func(*fleet.Proxy)) (stop func()) {
	w.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(exit)}}
	server, err := forwardproxy.New(forwardproxy.Config{
		Authorize: forwardproxy.StaticCredentials(testUser, testPassword),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(address)
			to := w.plain
			if port == "443" {
				to = w.safe
			}
			if strings.HasPrefix(host, "unreachable") {
				return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
			}
			return dialer.DialContext(ctx, network, to.Listener.Addr().String())
		},
	})
	must(w.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
		<-served
	})
	w.t.Cleanup(stop)
	w.at(name, l.Addr().String(), append([]func(*fleet.Proxy){func(p *fleet.Proxy) { p.ExitAddress = exit }}, change...)...)
	return stop
}

// at puts a proxy at address into the fleet.
func (w *web) at(name, address string, change ...func(*fleet.Proxy)) {
	w.t.Helper()
	to, err := net.ResolveTCPAddr("tcp", address)
	must(w.t, err)
	w.put(name, append([]func(*fleet.Proxy){func(p *fleet.Proxy) {
		p.Endpoint = fleet.Endpoint{Scheme: "http", Host: to.IP.String(), Port: int32(to.Port)}
	}}, change...)...)
}

// nowhere is an address at which nobody listens.
func nowhere(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (w *web) origin(f http.HandlerFunc) { w.answer.Store(&f) }

// get returns status and body; url is without scheme for "http".
func (w *web) get(tr http.RoundTripper, url string) (int, string) {
	w.t.Helper()
	resp, err := w.send(tr, http.MethodGet, url, nil)
	must(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return resp.StatusCode, string(text)
}

func (w *web) send(tr http.RoundTripper, method, url string, body io.Reader) (*http.Response, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	must(w.t, err)
	return tr.RoundTrip(req)
}

// seen returns the exits of the requests so far and forgets them.
func (w *web) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.exits
	w.exits = nil
	return out
}

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}
