package discovery

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
)

// Idle connections of clients without a token would take the places of those with one.
func TestARefusedClientKeepsNoConnection(t *testing.T) {
	f := newFixture(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+"/v1/proxies", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := f.send(t, req); a.StatusCode != http.StatusUnauthorized || !a.Close {
		t.Fatalf("%s, the connection is closed: %t", a.Status, a.Close)
	}
	if a := f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", ""); a.Close {
		t.Fatal("a client with the token loses its connection")
	}
}

// Asking for its health makes nobody an honest client, and honest clients stay connected.
func TestHealthProvesNothing(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxConnections = 4 })
	var conns []net.Conn
	var readers []*bufio.Reader
	const health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, text := range []string{request("GET", "/v1/proxies"), health, health, request("GET", "/v1/proxies")} {
		conn, r := dial(t, f)
		write(t, conn, text)
		if got := readStatus(t, r); got != http.StatusOK {
			t.Fatal(got)
		}
		conns, readers = append(conns, conn), append(readers, r)
	}
	if _, err := readers[1].Peek(1); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the first that shows no token closed", err)
	}
	for _, i := range []int{0, 2, 3} {
		write(t, conns[i], health)
		if got := readStatus(t, readers[i]); got != http.StatusOK {
			t.Errorf("connection %d: %d", i, got)
		}
	}
}
