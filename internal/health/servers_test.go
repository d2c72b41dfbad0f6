package health

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// serve runs handle for each connection to a loopback listener. The test ends when all of them have.
func serve(t testing.TB, handle func(net.Conn)) fleet.Endpoint {
	t.Helper()
	return serveOn(t, "127.0.0.1:0", handle)
}

func serveOn(t testing.TB, address string, handle func(net.Conn)) fleet.Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	var (
		mu     sync.Mutex
		conns  []net.Conn
		closed bool
		wg     sync.WaitGroup
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if closed {
				_ = c.Close()
			} else {
				conns = append(conns, c)
				wg.Go(func() {
					defer func() { _ = c.Close() }()
					handle(c)
				})
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		closed = true
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		_ = l.Close()
		wg.Wait()
	})
	return endpointOf(t, l.Addr().String())
}

func endpointOf(t testing.TB, address string) fleet.Endpoint {
	t.Helper()
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fleet.Endpoint{Scheme: "http", Host: ap.Addr().String(), Port: int32(ap.Port())}
}

// head reads a request up to the empty line.
func head(c net.Conn) (string, *bufio.Reader) {
	r := bufio.NewReader(c)
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), r
		}
	}
}

// says answers each request with text and closes.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		head(c)
		_, _ = io.WriteString(c, text)
		// Closed with something unread, the connection would be reset, and which of the two the other side sees first
		// would be a matter of luck.
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

// tunnels answers CONNECT with answer and then forwards to origin, whatever was asked for.
func tunnels(answer, origin string) func(net.Conn) {
	return func(c net.Conn) {
		_, r := head(c)
		up, err := net.Dial("tcp", origin)
		if err != nil {
			return
		}
		defer func() { _ = up.Close() }()
		_, _ = io.WriteString(c, answer)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(up, r)
			_ = up.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(c, up)
		_ = c.Close()
		<-done
	}
}

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
