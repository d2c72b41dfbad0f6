package forwardproxy

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is what a condition may take on a busy machine.
const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopbackAllowed() DestinationPolicy {
	return DestinationPolicy{Allow: prefixes("127.0.0.0/8", "::1/128")}
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// startProxy serves until the test ends. Loopback destinations are allowed
// unless the test brings its own Dial.
func startProxy(t testing.TB, cfg Config) (*Server, string) {
	t.Helper()
	if cfg.Dial == nil {
		cfg.Dial = NewDialer(loopbackAllowed(), netip.Addr{}, 0)
	}
	s, err := New(cfg)
	must(t, err)
	l := listen(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// peer is one raw connection with a deadline on everything.
type peer struct {
	t testing.TB
	*net.TCPConn
	in *bufio.Reader
}

func newPeer(t testing.TB, c net.Conn) *peer {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = c.Close() })
	return &peer{t: t, TCPConn: c.(*net.TCPConn), in: bufio.NewReader(c)}
}

func dialPeer(t testing.TB, address string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	return newPeer(t, c)
}

func (p *peer) send(s string) {
	p.t.Helper()
	_, err := io.WriteString(p, s)
	must(p.t, err)
}

// answer reads one response; its body is read too.
func (p *peer) answer(method string) (*http.Response, string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.in, &http.Request{Method: method})
	must(p.t, err)
	body, err := io.ReadAll(resp.Body)
	must(p.t, err)
	return resp, string(body)
}

func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); err != nil || string(got) != want {
		p.t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

// head reads a request head: its lines without the line breaks.
func (p *peer) head() []string {
	p.t.Helper()
	var lines []string
	for {
		line, err := p.in.ReadString('\n')
		must(p.t, err)
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return lines
		}
		lines = append(lines, line)
	}
}

func (p *peer) expectClosed() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if len(rest) != 0 || isTimeout(err) {
		p.t.Fatalf("got %q, %v; want the end of the connection", rest, err)
	}
}

func isTimeout(err error) bool {
	var nerr net.Error
	return errors.As(err, &nerr) && nerr.Timeout()
}

func accept(t testing.TB, l net.Listener) *peer {
	t.Helper()
	must(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	c, err := l.Accept()
	must(t, err)
	return newPeer(t, c)
}

// tunnel connects through the proxy and returns both ends.
func tunnel(t testing.TB, proxy string, l net.Listener) (client, upstream *peer) {
	t.Helper()
	client = dialPeer(t, proxy)
	client.send("CONNECT " + l.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\n")
	upstream = accept(t, l)
	client.expect(established)
	return client, upstream
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	expired := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-expired:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func basic(pair string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
