package health

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// answers is a proxy that says status and repeats the secrets to whoever sent them.
func answers(status string) func(net.Conn) {
	return says("HTTP/1.1 " + status + " " + secrets.Password + "\r\nX-Echo: " + basic(secrets) + "\r\n\r\n" + secrets.Password)
}

// connectRows are about the way to the proxy and its answer to CONNECT.
func connectRows() []row {
	const (
		bad     = v1alpha1.ReasonBadResponse
		refused = v1alpha1.ReasonProxyRefused
		late    = v1alpha1.ReasonTimeout
	)
	big := func(n int) string { return "HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("a", n) + "\r\n\r\n" }
	return []row{
		{name: "sound proxy", want: passes, says: "204"},
		{name: "201 opens a tunnel", tunnel: "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n", want: passes},
		{name: "204 opens a tunnel", tunnel: "HTTP/1.0 204 No Content\r\nTransfer-Encoding: weird\r\n\r\n", want: passes},
		{name: "interim answers before the tunnel", tunnel: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + established, want: passes},
		{name: "header just under 64 KiB", tunnel: big(63 << 10), want: passes},

		{name: "302 to CONNECT", proxy: answers("302"), want: refused, says: "302 Found"},
		{name: "403 to CONNECT", proxy: answers("403"), want: refused, says: "403 Forbidden"},
		{name: "407 to CONNECT", proxy: answers("407"), want: v1alpha1.ReasonProxyAuthFailed, says: "does not accept the credentials"},
		{name: "429 to CONNECT", proxy: answers("429"), want: refused, says: "429"},
		{name: "503 to CONNECT", proxy: answers("503"), want: refused, says: "503 Service Unavailable"},
		{name: "101 to CONNECT", proxy: answers("101"), want: refused, says: "101"},
		{name: "unknown status to CONNECT", proxy: answers("799"), want: refused, says: "799"},

		{name: "resets after the request", proxy: func(c net.Conn) { head(c); reset(c) }, want: bad, says: "connection"},
		{name: "closes at once", proxy: func(c net.Conn) { head(c) }, want: bad, says: "connection closed"},
		{name: "accepts and says nothing", proxy: swallow, want: late, says: "asking the proxy for a tunnel"},
		{name: "half a status line, then closes", proxy: says("HTTP/1.1 2"), want: bad},
		{name: "half a status line, then silence", proxy: func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 2"); swallow(c) }, want: late},
		{name: "half a header, then silence", proxy: func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: b"); swallow(c) }, want: late},
		{name: "one byte at a time", proxy: func(c net.Conn) { drips(c, "HTTP/1.1 200 OK\r\nX-Drip: ") }, want: late, says: "tunnel"},
		{name: "not HTTP", proxy: says("SSH-2.0-OpenSSH_9.6\r\n"), want: bad, says: "not valid HTTP"},
		{name: "speaks TLS itself", proxy: says("\x15\x03\x01\x00\x02\x02\x46"), want: bad},
		{name: "status of four digits", proxy: says("HTTP/1.1 2000 OK\r\n\r\n"), want: bad, says: "not valid HTTP"},
		{name: "broken header", proxy: says("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), want: bad, says: "not valid HTTP"},
		{name: "header over 64 KiB to CONNECT", proxy: says(big(70 << 10)), want: bad, says: "larger than 64 KiB"},
		{name: "endless header to CONNECT", proxy: func(c net.Conn) { head(c); endless(c, "HTTP/1.1 200 OK\r\n", "X-Big: a\r\n") }, want: bad, says: "larger than 64 KiB"},
		{name: "endless interim answers", proxy: says(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20)), want: bad, says: "interim"},
	}
}

// endless says text and then more for ever, as fast as it is read.
func endless(w io.Writer, text, more string) {
	_, err := io.WriteString(w, text)
	for more = strings.Repeat(more, 1000); err == nil; {
		_, err = io.WriteString(w, more)
	}
}

// A connection that is reset before anything is said counts as none, or as one that broke: that is up to the kernel.
func TestResetAtOnce(t *testing.T) {
	docs := readDocs(t)
	e := serve(t, reset)
	for range 20 {
		r := NewProber(ProberOptions{}).Probe(t.Context(), Target{Endpoint: e, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough}})
		if (r.Reason != v1alpha1.ReasonDialFailed && r.Reason != v1alpha1.ReasonBadResponse) || !docs.has(r.Reason, r.Message) {
			t.Errorf("got %+v", r)
		}
	}
}

// A proxy that keeps its old tunnels but gives no new ones is dead to whoever comes next.
func TestOldTunnelsProveNothing(t *testing.T) {
	t.Parallel()
	address, ca := tlsOrigin(t, status(204))
	forward := tunnels(established, address)
	refusals := map[string]func(net.Conn){
		v1alpha1.ReasonProxyRefused: answers("503"),
		v1alpha1.ReasonBadResponse:  func(c net.Conn) { head(c); reset(c) },
		v1alpha1.ReasonTimeout:      swallow,
	}
	for want, refuse := range refusals {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			fresh := func() (Target, *pooledProber) {
				first := make(chan struct{}, 1)
				first <- struct{}{}
				e := serve(t, func(c net.Conn) {
					select {
					case <-first:
						forward(c)
					default:
						refuse(c)
					}
				})
				target := Target{Endpoint: e, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough, CABundle: ca}}
				return target, newPooledProber(t, target)
			}
			second := func(p Prober, target Target, timeout time.Duration) Result {
				if r := p.Probe(t.Context(), target); !r.OK {
					t.Fatalf("first: %+v", r)
				}
				target.Probe.Timeout = timeout
				return p.Probe(t.Context(), target)
			}
			target, _ := fresh()
			timeout := enough
			if want == v1alpha1.ReasonTimeout {
				timeout = short
			}
			if r := second(NewProber(ProberOptions{}), target, timeout); r.Reason != want {
				t.Errorf("second: %+v", r)
			}
			// The same with a client that keeps tunnels, which is fooled: the tunnels are really there.
			target, pooled := fresh()
			if r := second(pooled, target, enough); !r.OK {
				t.Errorf("the old tunnel is of no use: %+v", r)
			}
		})
	}
}
