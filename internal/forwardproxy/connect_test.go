package forwardproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestTunnelCarriesBothWays(t *testing.T) {
	l := listen(t)
	_, proxy := startProxy(t, Config{})
	client := dialPeer(t, proxy)
	// The first bytes may come with the request, before the tunnel stands.
	client.send("CONNECT " + l.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\nearly")
	upstream := accept(t, l)
	client.expect(established)
	upstream.expect("early")
	client.send(" and late")
	upstream.expect(" and late")
	upstream.send("answer")
	client.expect("answer")
}

func TestTunnelPassesHalfCloseOn(t *testing.T) {
	cases := []struct {
		name string
		ends func(client, upstream *peer) (first, second *peer)
	}{
		{"client first", func(c, u *peer) (*peer, *peer) { return c, u }},
		{"destination first", func(c, u *peer) (*peer, *peer) { return u, c }},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l := listen(t)
			_, proxy := startProxy(t, Config{})
			first, second := tc.ends(tunnel(t, proxy, l))
			first.send("done")
			must(t, first.CloseWrite())
			second.expect("done")
			second.expectClosed()
			second.send("still talking")
			first.expect("still talking")
			must(t, second.CloseWrite())
			first.expectClosed()
		})
	}
}

func TestTunnelWithoutHalfCloseEndsAsAWhole(t *testing.T) {
	l := listen(t)
	_, proxy := startProxy(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := NewDialer(loopbackAllowed(), netip.Addr{}, 0)(ctx, network, address)
		return struct{ net.Conn }{c}, err
	}})
	client, upstream := tunnel(t, proxy, l)
	must(t, client.CloseWrite())
	upstream.expectClosed()
	client.expectClosed()
}

func TestIdleTunnelIsClosed(t *testing.T) {
	l := listen(t)
	clk := clocktesting.NewFakeClock(time.Now())
	_, proxy := startProxy(t, Config{Clock: clk, IdleTimeout: time.Minute})
	client, upstream := tunnel(t, proxy, l)
	eventually(t, "the watch is armed", clk.HasWaiters)

	clk.Step(50 * time.Second)
	// Data in one direction keeps both alive.
	upstream.send("x")
	client.expect("x")
	clk.Step(50 * time.Second)
	eventually(t, "the watch is armed again", clk.HasWaiters)
	client.send("y")
	upstream.expect("y")

	clk.Step(61 * time.Second)
	// The watch may have been about to be armed for the rest when time moved.
	eventually(t, "the idle tunnel is closed", func() bool {
		clk.Step(time.Minute)
		must(t, client.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := client.in.ReadByte()
		return err != nil && !isTimeout(err)
	})
	upstream.expectClosed()
}

func TestConnectTargets(t *testing.T) {
	cases := []struct{ target, reason string }{
		{"example.com", "no port"}, {"example.com:", "empty port"}, {"example.com:0", "port 0"},
		{"example.com:65536", "port too large"}, {"example.com:+80", "a sign"}, {"example.com:-1", "negative"},
		{"example.com:http", "a service name"}, {":443", "no host"}, {"a:b:443", "two colons"},
		{"user:pass@example.com:443", "userinfo"}, {"example.com:443/path", "a path"}, {"/path", "origin form"},
		{"http://example.com:80", "absolute form"}, {"example.com:443?q", "a query"}, {"[::1]", "no port"},
		{"[::1:443", "unclosed bracket"}, {"[127.0.0.1]:443", "IPv4 in brackets"}, {"::1:443", "IPv6 without brackets"},
		{"[fe80::1%25eth0]:443", "a zone"}, {"exa%6dple.com:443", "an escape"}, {"ex\x80mple.com:443", "not ASCII"},
		{strings.Repeat("a", 300) + ":443", "a name too long"}, {"*", "asterisk"},
	}
	_, proxy := startProxy(t, Config{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("dialled %q", address)
		return nil, io.EOF
	}})
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			c := dialPeer(t, proxy)
			c.send("CONNECT " + tc.target + " HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp, body := c.answer("GET"); resp.StatusCode != http.StatusBadRequest || strings.Contains(body, "pass") {
				t.Fatalf("%s: got %s %q", tc.target, resp.Status, body)
			}
		})
	}
}

func TestConnectTakesNoContent(t *testing.T) {
	l := listen(t)
	_, proxy := startProxy(t, Config{})
	for _, framing := range []string{"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"} {
		c := dialPeer(t, proxy)
		c.send("CONNECT " + l.Addr().String() + " HTTP/1.1\r\nHost: x\r\n" + framing)
		if resp, _ := c.answer("GET"); resp.StatusCode != http.StatusBadRequest || !resp.Close {
			t.Fatalf("%q: got %s close=%t", framing, resp.Status, resp.Close)
		}
	}
}

func TestDialFailures(t *testing.T) {
	secret := errors.New("inside 10.9.8.7 user:pass")
	cases := []struct {
		name, kind string
		err        error
		want       int
	}{
		{"policy", "destination_ip_prohibited", &net.OpError{Op: "dial", Err: fmt.Errorf("%w: x", ErrDestinationRefused)}, 403},
		{"timeout", "connection_timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, 504},
		{"context deadline", "connection_timeout", fmt.Errorf("x: %w", context.DeadlineExceeded), 504},
		{"no such name", "dns_error", &net.DNSError{Err: "no such host", IsNotFound: true}, 502},
		{"slow resolver", "dns_timeout", &net.DNSError{Err: "timeout", IsTimeout: true}, 504},
		{"refused", "connection_refused", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, 502},
		{"anything else", "destination_unavailable", secret, 502},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, proxy := startProxy(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, tc.err }})
			for _, line := range []string{"CONNECT a.example:443", "GET http://a.example/"} {
				c := dialPeer(t, proxy)
				c.send(line + " HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic("user:pass") + "\r\n\r\n")
				resp, body := c.answer("GET")
				if resp.StatusCode != tc.want || resp.Header.Get("Proxy-Status") != "egress-proxy; error="+tc.kind {
					t.Errorf("%s: got %s, %q", line, resp.Status, resp.Header.Get("Proxy-Status"))
				}
				if len(body) > 80 || strings.Contains(body, "pass") || strings.Contains(body, "10.9") {
					t.Errorf("%s: body %q", line, body)
				}
			}
		})
	}
}

func TestSlowDialIsCutByDialTimeout(t *testing.T) {
	_, proxy := startProxy(t, Config{DialTimeout: 50 * time.Millisecond, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c := dialPeer(t, proxy)
	c.send("CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, _ := c.answer("GET"); resp.StatusCode != http.StatusGatewayTimeout {
		t.Fatalf("got %s", resp.Status)
	}
}

func TestManyTunnelsLeaveNothingBehind(t *testing.T) {
	const n = 200
	l := listen(t)
	s, proxy := startProxy(t, Config{})
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)

	for range 2 {
		var all sync.WaitGroup
		type pair struct{ client, upstream *peer }
		pairs := make(chan pair, n)
		for range n {
			client, upstream := tunnel(t, proxy, l)
			pairs <- pair{client, upstream}
		}
		close(pairs)
		i := 0
		for p := range pairs {
			i++
			end := p.client
			if i%2 == 0 {
				end = p.upstream
			}
			all.Go(func() {
				_, _ = io.WriteString(p.client, "up")
				_, _ = io.WriteString(p.upstream, "down")
				_ = end.Close()
				_, _ = io.Copy(io.Discard, p.client)
				_, _ = io.Copy(io.Discard, p.upstream)
				_ = p.client.Close()
				_ = p.upstream.Close()
			})
		}
		all.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, s.conns.wait(ctx))
	eventually(t, "goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	eventually(t, "descriptors are closed", func() bool { return openDescriptors(t) <= descriptors })
}

// openDescriptors is 0 where there is no /proc.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(entries)
}
