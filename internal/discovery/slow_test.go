package discovery

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// putLarge makes a list of the fleet larger than what the kernel takes on its own.
func putLarge(f *fixture) {
	for i := range 1000 {
		f.put(fmt.Sprintf("p%03d", i), func(p *fleet.Proxy) {
			p.Attributes = map[string]string{}
			for n := range 100 {
				p.Attributes[fmt.Sprintf("attribute-%d", n)] = strings.Repeat("x", 63)
			}
		})
	}
}

// largeBytes is less than the list has.
const largeBytes = 8_000_000

// unread asks for the list of putLarge and reads nothing.
func unread(t *testing.T, f *fixture) net.Conn {
	t.Helper()
	conn, _ := dial(t, f)
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	write(t, conn, request("GET", "/v1/proxies?limit=1000"))
	return conn
}

func listAnswered(f *fixture) bool {
	return strings.Contains(f.logs.String(), `"route"="/v1/proxies"`)
}

// Leases go on while a list cannot be written.
func TestAnAnswerThatNobodyReadsHoldsNoLock(t *testing.T) {
	f := newFixture(t)
	putLarge(f)
	f.put("small")
	conn := unread(t, f)
	if _, err := conn.Read(make([]byte, 1)); err != nil { // so it is being written
		t.Fatal(err)
	}
	for range 10 {
		l := f.acquire(t, `{"selector":{"country":"de"}}`)
		f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, "")
	}
	if listAnswered(f) {
		t.Fatal("the list was written in whole: this test shows nothing")
	}
	conn.Close()
	await(t, "the list ends", func() bool { return listAnswered(f) })
}

// The only place becomes free although the client is there and has most of its answer to come.
func TestWhoReadsTooSlowlyIsCutOff(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.WriteTimeout, o.MaxConnections = 100*time.Millisecond, 1 })
	putLarge(f)
	unread(t, f)
	await(t, "the list ends", func() bool { return listAnswered(f) })
	f.want(t, http.StatusOK, http.MethodGet, "/healthz", "")
}

// Who has closed its own side gets the whole answer, however large.
func TestHalfClosedConnectionsAreAnswered(t *testing.T) {
	f := newFixture(t)
	putLarge(f)
	conn, r := dial(t, f)
	write(t, conn, request("GET", "/v1/proxies?limit=1000"))
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < largeBytes {
		t.Errorf("%d bytes came, %v", n, err)
	}
	if _, err := r.Peek(1); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %v, want the end", err)
	}
}

// One that waits is answered at once: whether it would still read at the end of the wait is not to be known.
func TestAHalfClosedConnectionWaitsNoLonger(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	f.acquire(t, `{}`)
	conn, r := dial(t, f)
	write(t, conn, post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := readStatus(t, r); got != http.StatusConflict {
		t.Errorf("%d, want 409", got)
	}
	if n := f.ledger.Waiting(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
