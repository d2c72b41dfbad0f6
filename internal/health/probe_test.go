package health

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// enough never passes in a good run; short is for probes that are to time out.
	enough = 30 * time.Second
	short  = 250 * time.Millisecond
)

// secrets that no message may show.
var secrets = provider.Credentials{Username: "sentinel-user", Password: "sentinel-pass"}

func basic(c provider.Credentials) string {
	return base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
}

func checkMessage(t *testing.T, r Result) {
	t.Helper()
	if r.Message == "" || len(r.Message) > MaxMessageBytes || !utf8.ValidString(r.Message) {
		t.Errorf("message %q: empty, too long or not UTF-8", r.Message)
	}
	for _, secret := range []string{secrets.Username, secrets.Password, basic(secrets)} {
		if strings.Contains(r.Message, secret) {
			t.Errorf("message %q shows a secret", r.Message)
		}
	}
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func drip(c net.Conn, text string) {
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		<-time.After(short / 5)
	}
}

func gzipBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 32<<20))
	_ = z.Close()
	return b.Bytes()
}

func TestProbe(t *testing.T) {
	t.Parallel()
	bomb := gzipBomb()
	echo := "HTTP/1.1 %s " + secrets.Password + "\r\nX-Echo: " + basic(secrets) + "\r\n\r\n"
	answers := func(status string) func(net.Conn) { return says(strings.Replace(echo, "%s", status, 1)) }
	const ok = v1alpha1.ReasonProbeSucceeded

	cases := []struct {
		name    string
		url     string                  // default https://example.com/
		origin  http.HandlerFunc        // default 204
		tunnel  string                  // the proxy tunnels to the origin after this answer; default established
		proxy   func(net.Conn)          // instead of a tunnelling proxy
		probe   func(p *v1alpha1.Probe) // changes the probe
		want    string                  // reason
		says    string                  // part of the message
		aboutIt bool                    // TargetRefused
	}{
		{name: "sound proxy", want: ok, says: "204"},
		{name: "201 opens a tunnel", tunnel: "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n", want: ok},
		{name: "204 opens a tunnel", tunnel: "HTTP/1.0 204 No Content\r\nTransfer-Encoding: weird\r\n\r\n", want: ok},
		{name: "interim answers before the tunnel", tunnel: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + established, want: ok},
		{name: "endless interim answers", proxy: says(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20)), want: v1alpha1.ReasonBadResponse, says: "interim"},

		{name: "accepts and says nothing", proxy: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, want: v1alpha1.ReasonTimeout, says: "tunnel"},
		{name: "one byte at a time", proxy: func(c net.Conn) { head(c); drip(c, established+strings.Repeat("x", 100)) }, want: v1alpha1.ReasonTimeout},
		{name: "closes at once", proxy: func(c net.Conn) { head(c) }, want: v1alpha1.ReasonBadResponse, says: "closed"},
		{name: "half a status line", proxy: says("HTTP/1.1 2"), want: v1alpha1.ReasonBadResponse},
		{name: "not HTTP", proxy: says("SSH-2.0-OpenSSH_9.6\r\n"), want: v1alpha1.ReasonBadResponse, says: "not valid HTTP"},
		{name: "status of four digits", proxy: says("HTTP/1.1 2000 OK\r\n\r\n"), want: v1alpha1.ReasonBadResponse},
		{name: "broken header", proxy: says("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), want: v1alpha1.ReasonBadResponse},
		{name: "resets", proxy: func(c net.Conn) { head(c); reset(c) }, want: v1alpha1.ReasonBadResponse, says: "connection"},
		{name: "header over 64 KiB to CONNECT", proxy: says("HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"), want: v1alpha1.ReasonBadResponse, says: "64 KiB"},
		{name: "302 to CONNECT", proxy: answers("302"), want: v1alpha1.ReasonProxyRefused, says: "302 Found"},
		{name: "403 to CONNECT", proxy: answers("403"), want: v1alpha1.ReasonProxyRefused, says: "403"},
		{name: "407 to CONNECT", proxy: answers("407"), want: v1alpha1.ReasonProxyAuthFailed, says: "credentials"},
		{name: "503 to CONNECT", proxy: answers("503"), want: v1alpha1.ReasonProxyRefused, says: "503"},
		{name: "unknown status to CONNECT", proxy: answers("799"), want: v1alpha1.ReasonProxyRefused, says: "799"},

		{name: "200 then close", proxy: says(established), want: v1alpha1.ReasonTLSFailed, says: "closed"},
		{name: "200 then HTML", proxy: says(established + "<html>Please log in</html>"), want: v1alpha1.ReasonTLSFailed, says: "does not speak TLS"},
		{name: "200 then silence", proxy: func(c net.Conn) { head(c); _, _ = io.WriteString(c, established); _, _ = io.Copy(io.Discard, c) }, want: v1alpha1.ReasonTimeout, says: "TLS"},
		{name: "200 then reset", proxy: func(c net.Conn) {
			_, r := head(c)
			_, _ = io.WriteString(c, established)
			_, _ = r.ReadByte()
			reset(c)
		}, want: v1alpha1.ReasonTLSFailed},
		{name: "self-signed certificate", probe: func(p *v1alpha1.Probe) { p.CABundle = nil }, want: v1alpha1.ReasonTLSFailed, says: "unknown authority"},
		{name: "wrong name", url: "https://wrong.test/", want: v1alpha1.ReasonTLSFailed, says: "not valid for wrong.test"},
		{name: "verification off", url: "https://wrong.test/", probe: func(p *v1alpha1.Probe) { p.CABundle, p.InsecureSkipVerify = nil, true }, want: ok},
		{name: "bundle without certificate", probe: func(p *v1alpha1.Probe) { p.CABundle = []byte("none") }, want: v1alpha1.ReasonTLSFailed, says: "caBundle"},

		{name: "redirect is not followed", origin: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, want: v1alpha1.ReasonUnexpectedStatus, says: "302"},
		{name: "redirect that is expected", origin: status(302), probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 302 }, want: ok},
		{name: "portal page where 204 is expected", origin: status(200), want: v1alpha1.ReasonUnexpectedStatus, says: "200 OK, want 204"},
		{name: "any 2xx", origin: status(206), probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }, want: ok},
		{name: "target answers 401", origin: status(401), want: v1alpha1.ReasonUnexpectedStatus, aboutIt: true},
		{name: "target answers 403", origin: status(403), want: v1alpha1.ReasonUnexpectedStatus, aboutIt: true},
		{name: "target answers 429", origin: status(429), want: v1alpha1.ReasonUnexpectedStatus, aboutIt: true},
		{name: "target answers 407", origin: status(407), want: v1alpha1.ReasonUnexpectedStatus},
		{name: "endless body", probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }, origin: func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 8<<10)); err != nil {
					return
				}
			}
		}, want: ok},
		{name: "gzip bomb", probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }, origin: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, want: ok},
		{name: "body stalls", probe: func(p *v1alpha1.Probe) { p.ExpectedStatus, p.Timeout = 0, short }, origin: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, want: v1alpha1.ReasonTimeout, says: "body"},
		{name: "body cut short", probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }, origin: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("a"))
		}, want: v1alpha1.ReasonBadResponse, says: "body"},
		{name: "header over 64 KiB", origin: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Big", strings.Repeat("a", 70<<10))
			w.WriteHeader(204)
		}, want: v1alpha1.ReasonBadResponse, says: "64 KiB"},

		{name: "http: sound", url: "http://target.test/generate?x=1", proxy: answers("204"), want: ok},
		{name: "http: 407", url: "http://target.test/", proxy: answers("407"), want: v1alpha1.ReasonProxyAuthFailed},
		{name: "http: 403 may be the proxy's own", url: "http://target.test/", proxy: answers("403"), want: v1alpha1.ReasonUnexpectedStatus},
		{name: "http: half an answer", url: "http://target.test/", proxy: says("HTTP/1.1 204"), want: v1alpha1.ReasonBadResponse},
		{name: "http: silence", url: "http://target.test/", proxy: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, want: v1alpha1.ReasonTimeout, says: "answer"},
		{name: "http: loopback target goes through the proxy too", url: "http://127.0.0.1:1/", proxy: answers("204"), want: ok},
		{name: "url of another scheme", url: "ftp://target.test/", want: v1alpha1.ReasonBadResponse, says: "url"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.origin == nil {
				c.origin = status(http.StatusNoContent)
			}
			address, ca := tlsOrigin(t, c.origin)
			if c.tunnel == "" {
				c.tunnel = established
			}
			if c.proxy == nil {
				c.proxy = tunnels(c.tunnel, address)
			}
			if c.url == "" {
				c.url = "https://example.com/"
			}
			target := Target{
				Endpoint:    serve(t, c.proxy),
				Credentials: &secrets,
				Probe:       v1alpha1.Probe{URL: c.url, ExpectedStatus: 204, Timeout: enough, CABundle: ca},
			}
			if c.want == v1alpha1.ReasonTimeout {
				target.Probe.Timeout = short
			}
			if c.probe != nil {
				c.probe(&target.Probe)
			}
			p := NewProber(ProberOptions{})
			for range 2 {
				r := p.Probe(t.Context(), target)
				checkMessage(t, r)
				if r.Reason != c.want || r.OK != (c.want == ok) || !strings.Contains(r.Message, c.says) || r.TargetRefused != c.aboutIt || r.Inconclusive {
					t.Errorf("got %+v, want reason %s, message with %q, TargetRefused %v", r, c.want, c.says, c.aboutIt)
				}
				if r.Latency <= 0 || r.Latency >= enough {
					t.Errorf("latency %v", r.Latency)
				}
			}
		})
	}
}

func TestProbeCannotConnect(t *testing.T) {
	hang := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	broken := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("sentinel-pass")
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := endpointOf(t, l.Addr().String())
	_ = l.Close()
	named := fleet.Endpoint{Scheme: "http", Host: "proxy.test", Port: 3128}
	cases := []struct {
		name     string
		endpoint fleet.Endpoint
		resolver *net.Resolver
		want     string
		says     string
	}{
		{"connection refused", refusing, nil, v1alpha1.ReasonDialFailed, refusing.Address() + ": connection refused"},
		{"resolver fails", named, broken, v1alpha1.ReasonDialFailed, "cannot be resolved"},
		{"resolver hangs", named, hang, v1alpha1.ReasonTimeout, "connecting"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewProber(ProberOptions{Resolver: c.resolver}).Probe(t.Context(), Target{
				Endpoint: c.endpoint, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: short * 2},
			})
			checkMessage(t, r)
			if r.OK || r.Reason != c.want || !strings.Contains(r.Message, c.says) {
				t.Errorf("got %+v, want %s with %q", r, c.want, c.says)
			}
		})
	}
}

func TestProbeIPv6Only(t *testing.T) {
	e := serveOn(t, "[::1]:0", says("HTTP/1.1 204 No Content\r\n\r\n"))
	r := NewProber(ProberOptions{}).Probe(t.Context(), Target{Endpoint: e, Probe: v1alpha1.Probe{URL: "http://[2001:db8::1]/", Timeout: enough}})
	if !r.OK {
		t.Errorf("got %+v", r)
	}
}

// What the proxy and what the origin are shown, byte for byte where it matters.
func TestProbeRequests(t *testing.T) {
	credentials := []provider.Credentials{
		secrets,
		{Username: "a@b/?#%", Password: "p:@/?#% ü"},
		{Username: "raw\xff\xfe", Password: "\x80"},
		{Username: "user", Password: ""},
	}
	for _, c := range credentials {
		var mu sync.Mutex
		var atProxy, atOrigin []string
		address, ca := tlsOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			var b strings.Builder
			b.WriteString(r.Method + " " + r.RequestURI + " " + r.Proto + " " + r.Host + "\n")
			_ = r.Header.Write(&b)
			mu.Lock()
			atOrigin = append(atOrigin, b.String())
			mu.Unlock()
			w.WriteHeader(204)
		})
		forward := tunnels(established, address)
		e := serve(t, func(conn net.Conn) {
			spy := &spyConn{Conn: conn}
			forward(spy)
			mu.Lock()
			atProxy = append(atProxy, spy.first)
			mu.Unlock()
		})
		plain := serve(t, func(conn net.Conn) {
			request, _ := head(conn)
			mu.Lock()
			atProxy = append(atProxy, request)
			mu.Unlock()
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		p := NewProber(ProberOptions{})
		target := Target{Endpoint: e, Credentials: &c, Probe: v1alpha1.Probe{URL: "https://example.com?x=1", ExpectedStatus: 204, Timeout: enough, CABundle: ca}}
		if r := p.Probe(t.Context(), target); !r.OK {
			t.Fatalf("https: %+v", r)
		}
		waitFor(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(atProxy) == 1 })
		target.Endpoint, target.Probe.URL = plain, "http://example.com:8080/p?x=1"
		if r := p.Probe(t.Context(), target); !r.OK {
			t.Fatalf("http: %+v", r)
		}
		auth := "Proxy-Authorization: Basic " + basic(c) + "\r\n"
		mu.Lock()
		if got := atProxy[0]; !strings.HasPrefix(got, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n") || !strings.Contains(got, auth) {
			t.Errorf("CONNECT: %q", got)
		}
		if got := atProxy[1]; !strings.HasPrefix(got, "GET http://example.com:8080/p?x=1 HTTP/1.1\r\nHost: example.com:8080\r\n") || !strings.Contains(got, auth) {
			t.Errorf("GET: %q", got)
		}
		got := atOrigin[0]
		if !strings.HasPrefix(got, "GET /?x=1 HTTP/1.1 example.com\n") {
			t.Errorf("origin: %q", got)
		}
		if strings.Contains(got, basic(c)) || strings.Contains(strings.ToLower(got), "proxy-") || strings.Contains(got, "gzip") {
			t.Errorf("origin is shown too much: %q", got)
		}
		mu.Unlock()
	}
}

// spyConn keeps what the first Read returned.
type spyConn struct {
	net.Conn
	first string
}

func (c *spyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.first == "" {
		c.first = string(p[:n])
	}
	return n, err
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(enough); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func TestProbeIgnoresEnvironment(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Setenv("NO_PROXY", "*")
	t.Setenv("no_proxy", "*")
	address, ca := tlsOrigin(t, status(204))
	var seen sync.Map
	forward := tunnels(established, address)
	e := serve(t, func(c net.Conn) { seen.Store("proxy", true); forward(c) })
	probe := v1alpha1.Probe{URL: "https://" + address + "/", ExpectedStatus: 204, Timeout: enough, CABundle: ca}
	if r := NewProber(ProberOptions{}).Probe(t.Context(), Target{Endpoint: e, Probe: probe}); !r.OK {
		t.Fatalf("got %+v", r)
	}
	if _, ok := seen.Load("proxy"); !ok {
		t.Error("the probe went past the proxy")
	}
}

func TestProbeOpensANewTunnelEachTime(t *testing.T) {
	address, ca := tlsOrigin(t, status(204))
	var mu sync.Mutex
	count := 0
	forward := tunnels(established, address)
	e := serve(t, func(c net.Conn) {
		mu.Lock()
		count++
		first := count == 1
		mu.Unlock()
		if first {
			forward(c)
			return
		}
		says("HTTP/1.1 503 Service Unavailable\r\n\r\n")(c)
	})
	p := NewProber(ProberOptions{})
	target := Target{Endpoint: e, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough, CABundle: ca}}
	if r := p.Probe(t.Context(), target); !r.OK {
		t.Fatalf("first: %+v", r)
	}
	if r := p.Probe(t.Context(), target); r.Reason != v1alpha1.ReasonProxyRefused {
		t.Errorf("second: %+v", r)
	}
}

func TestDialPolicy(t *testing.T) {
	dialled := make(chan struct{}, 10)
	e := serve(t, func(c net.Conn) { dialled <- struct{}{}; says("HTTP/1.1 204 No Content\r\n\r\n")(c) })
	named := fleet.Endpoint{Scheme: "http", Host: "localhost", Port: e.Port}
	probe := v1alpha1.Probe{URL: "http://target.test/", Timeout: enough}
	strict := NewProber(ProberOptions{DialPolicy: RefuseInternal(nil)})
	for _, endpoint := range []fleet.Endpoint{e, named} {
		r := strict.Probe(t.Context(), Target{Endpoint: endpoint, External: true, Probe: probe})
		if r.Reason != v1alpha1.ReasonProxyRefused || !strings.Contains(r.Message, "loopback") {
			t.Errorf("%s: %+v", endpoint.Host, r)
		}
	}
	select {
	case <-dialled:
		t.Error("a refused address was dialled")
	default:
	}
	if r := strict.Probe(t.Context(), Target{Endpoint: e, Probe: probe}); !r.OK {
		t.Errorf("Managed: %+v", r)
	}
	lenient := NewProber(ProberOptions{DialPolicy: RefuseInternal([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})})
	if r := lenient.Probe(t.Context(), Target{Endpoint: e, External: true, Probe: probe}); !r.OK {
		t.Errorf("allowed: %+v", r)
	}
}

func TestRefuseInternal(t *testing.T) {
	policy := RefuseInternal([]netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")})
	for _, a := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1%eth0", "0.0.0.0", "::",
		"fd00:ec2::254", "100.100.100.200", "192.0.0.192"} {
		if policy(netip.MustParseAddr(a)) == nil {
			t.Errorf("%s is let through", a)
		}
	}
	for _, a := range []string{"127.0.0.9", "::ffff:127.0.0.9", "192.0.2.1", "10.0.0.1", "2001:db8::1", "64:ff9b::c000:201", "100.100.100.201"} {
		if err := policy(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestProbeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := serve(t, func(c net.Conn) { cancel(); _, _ = io.Copy(io.Discard, c) })
	r := NewProber(ProberOptions{}).Probe(ctx, Target{Endpoint: e, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough}})
	if !r.Inconclusive || r.OK {
		t.Errorf("got %+v", r)
	}
	checkMessage(t, r)
}

func TestManyProbesLeaveNothing(t *testing.T) {
	address, ca := tlsOrigin(t, status(204))
	sound := serve(t, tunnels(established, address))
	silent := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	p := NewProber(ProberOptions{})
	run := func(n int) {
		var wg sync.WaitGroup
		for i := range n {
			target := Target{Endpoint: sound, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough, CABundle: ca}}
			if i%4 == 0 {
				target.Endpoint, target.Probe.Timeout = silent, short
			}
			wg.Go(func() {
				if r := p.Probe(t.Context(), target); r.OK != (target.Endpoint == sound) {
					t.Errorf("got %+v", r)
				}
			})
		}
		wg.Wait()
	}
	run(4)
	before := goleak.IgnoreCurrent()
	descriptors := openDescriptors()
	run(200)
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { return openDescriptors() <= descriptors })
}

// openDescriptors is always 0 where there is no /proc.
func openDescriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func TestClean(t *testing.T) {
	long := strings.Repeat("ü", MaxMessageBytes)
	if got := clean("x" + long); len(got) != MaxMessageBytes-1 || !utf8.ValidString(got) {
		t.Errorf("cut to %d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	if got := clean("a\xffb\nc"); got != "a\uFFFDb c" {
		t.Errorf("got %q", got)
	}
}
