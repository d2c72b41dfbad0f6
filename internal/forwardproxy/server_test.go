package forwardproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

func TestConfigBounds(t *testing.T) {
	cases := []struct {
		cfg         Config
		field, says string
	}{
		{Config{MaxHeaderBytes: 100}, "MaxHeaderBytes", "100"},
		{Config{MaxHeaderBytes: 2 << 20}, "MaxHeaderBytes", "2097152"},
		{Config{HeaderTimeout: time.Millisecond}, "HeaderTimeout", "1ms"},
		{Config{HeaderTimeout: time.Hour}, "HeaderTimeout", "1h0m0s"},
		{Config{IdleTimeout: -1}, "IdleTimeout", "-1ns"},
		{Config{IdleTimeout: 25 * time.Hour}, "IdleTimeout", "25h0m0s"},
		{Config{DialTimeout: time.Hour}, "DialTimeout", "1h0m0s"},
		{Config{MaxConnections: -1}, "MaxConnections", "-1"},
		{Config{MaxConnections: 1 << 20}, "MaxConnections", "1048576"},
		{Config{AllowClients: make([]netip.Prefix, 1)}, "AllowClients[0]", "invalid"},
	}
	for _, tc := range cases {
		if _, err := New(tc.cfg); err == nil || !strings.HasPrefix(err.Error(), tc.field+": ") || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %s: got %v", tc.field, tc.says, err)
		}
	}
	if _, err := New(Config{}); err != nil {
		t.Errorf("zero value: %v", err)
	}
}

func TestZeroConfigRefusesLoopback(t *testing.T) {
	l := listen(t)
	s, err := New(Config{})
	must(t, err)
	_, err = s.dial(context.Background(), "tcp", l.Addr().String())
	if !errors.Is(err, ErrDestinationRefused) {
		t.Fatalf("got %v", err)
	}
}

func TestSlowHeaderIsCut(t *testing.T) {
	_, proxy := startProxy(t, Config{HeaderTimeout: 100 * time.Millisecond})
	for _, begin := range []string{"", "GET http://a.example/ HTTP/1.1\r\nX-Slow: "} {
		c := dialPeer(t, proxy)
		c.send(begin)
		// net/http may say 408 first.
		if _, err := io.ReadAll(c.in); isTimeout(err) {
			t.Fatalf("%q: still open", begin)
		}
	}
}

func TestLargeHeaderIsRefused(t *testing.T) {
	_, proxy := startProxy(t, Config{MaxHeaderBytes: 8 << 10})
	c := dialPeer(t, proxy)
	c.send("GET http://a.example/ HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("a", 8<<10) + "\r\n\r\n")
	if resp, _ := c.answer("GET"); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("got %s", resp.Status)
	}
}

func TestIdleClientConnectionIsClosed(t *testing.T) {
	_, proxy := startProxy(t, Config{IdleTimeout: 50 * time.Millisecond})
	c := dialPeer(t, proxy)
	c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	c.answer("GET")
	c.expectClosed()
}

func TestConnectionsBeyondTheLimitGet503(t *testing.T) {
	l := listen(t)
	_, proxy := startProxy(t, Config{MaxConnections: 2})
	first, far := tunnel(t, proxy, l)
	tunnel(t, proxy, l)
	for range 3 {
		c := dialPeer(t, proxy)
		c.send("CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, _ := c.answer("GET")
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(resp.Header.Get("Proxy-Status"), "connection_limit_reached") {
			t.Fatalf("got %s", resp.Status)
		}
		must(t, c.Close())
	}
	must(t, first.Close())
	must(t, far.Close())
	eventually(t, "the freed place is given away", func() bool {
		c := dialPeer(t, proxy)
		defer c.Close()
		c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, _ := c.answer("GET")
		return resp.StatusCode == http.StatusBadRequest
	})
}

func TestOnlyAllowedClientsAreServed(t *testing.T) {
	cases := []struct {
		allow  []netip.Prefix
		want   int
		reason string
	}{
		{prefixes("10.0.0.0/8", "::/0"), 403, "not in any"},
		{prefixes("10.0.0.0/8", "127.0.0.0/8"), 400, "in the second"},
		{prefixes("::ffff:127.0.0.0/104"), 400, "in mapped notation"},
	}
	for _, tc := range cases {
		_, proxy := startProxy(t, Config{AllowClients: tc.allow})
		c := dialPeer(t, proxy)
		c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp, _ := c.answer("GET"); resp.StatusCode != tc.want {
			t.Errorf("%s: got %s", tc.reason, resp.Status)
		}
	}
	if clientAllowed(prefixes("127.0.0.0/8"), &net.UnixAddr{}) {
		t.Error("an address that is not IP passed a list of prefixes")
	}
}

func TestShutdownLetsATunnelFinish(t *testing.T) {
	l := listen(t)
	s, proxy := startProxy(t, Config{})
	client, upstream := tunnel(t, proxy, l)
	result := make(chan error, 1)
	go func() { result <- s.Shutdown(context.Background()) }()
	eventually(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", proxy)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	client.send("still")
	upstream.expect("still")
	select {
	case err := <-result:
		t.Fatalf("Shutdown returned %v with a tunnel open", err)
	default:
	}
	must(t, client.Close())
	upstream.expectClosed()
	must(t, upstream.Close())
	must(t, <-result)
}

func TestShutdownCutsWhatDoesNotFinish(t *testing.T) {
	l := listen(t)
	s, proxy := startProxy(t, Config{})
	client, upstream := tunnel(t, proxy, l)
	waiting := dialPeer(t, proxy)
	waiting.send("GET http://" + l.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	origin := accept(t, l)
	origin.head()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	client.expectClosed()
	upstream.expectClosed()
	origin.expectClosed()
	// Cut, or told 503 right before.
	if _, err := io.ReadAll(waiting.in); isTimeout(err) {
		t.Fatal("a request outlived the server")
	}
	if err := s.Serve(listen(t)); err != nil {
		t.Fatalf("Serve after Shutdown: %v", err)
	}
}

func TestShutdownCancelsADial(t *testing.T) {
	dialling := make(chan struct{}, 2)
	s, proxy := startProxy(t, Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}, DialTimeout: 5 * time.Minute})
	for _, line := range []string{"CONNECT a.example:443", "GET http://a.example/"} {
		dialPeer(t, proxy).send(line + " HTTP/1.1\r\nHost: x\r\n\r\n")
		<-dialling
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAccessLogHoldsNoSecret(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	log := funcr.NewJSON(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{Verbosity: 1})
	l := listen(t)
	_, proxy := startProxy(t, Config{Log: log, Authorize: StaticCredentials("someone", "hunter2")})
	auth := "Proxy-Authorization: " + basic("someone:hunter2") + "\r\n"

	client := dialPeer(t, proxy)
	client.send("CONNECT " + l.Addr().String() + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\nabc")
	upstream := accept(t, l)
	upstream.expect("abc")
	upstream.send("de")
	client.expect(established + "de")
	must(t, client.Close())
	must(t, upstream.Close())
	for _, request := range []string{
		"GET http://u:sesame@a.example/private?token=hunter2 HTTP/1.1\r\nHost: x\r\n" + auth,
		strings.Repeat("M", 500) + " http://a.example/private?token=hunter2 HTTP/1.1\r\nHost: x\r\n",
	} {
		c := dialPeer(t, proxy)
		c.send(request + "\r\n")
		c.answer("GET")
	}
	eventually(t, "three lines", func() bool { mu.Lock(); defer mu.Unlock(); return len(lines) == 3 })
	all := strings.Join(lines, "\n")
	for _, secret := range []string{"hunter2", "someone", "sesame", "private", strings.TrimPrefix(basic("someone:hunter2"), "Basic "), strings.Repeat("M", 40)} {
		if strings.Contains(all, secret) {
			t.Errorf("log holds %q:\n%s", secret, all)
		}
	}
	for _, want := range []string{`"destination":"` + l.Addr().String() + `"`, `"status":200`, `"bytesUp":3`, `"bytesDown":2`, `"status":407`, `"duration":`} {
		if !strings.Contains(all, want) {
			t.Errorf("log lacks %s:\n%s", want, all)
		}
	}
}
