package discovery

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Each request in flight gets the answer that it would have got, those who wait are dismissed, and nobody who is slow or
// idle keeps the server longer than the limits on reading do.
func TestShutdownWithEverythingInFlight(t *testing.T) {
	const each = 10
	var gated atomic.Bool
	var calls, entered atomic.Int64
	proceed := make(chan struct{})
	f := newWaitFixture(t, func(o *Options) {
		o.ReadHeaderTimeout, o.ReadTimeout = time.Second, 2*time.Second
		o.Leading = func() bool {
			calls.Add(1)
			if gated.Load() {
				entered.Add(1)
				<-proceed
			}
			return true
		}
	})
	f.put("full", withCap(1))
	f.acquire(t, `{}`)
	type client struct {
		what   string
		r      *bufio.Reader
		status int
	}
	var clients []client
	add := func(what, text string, status int) (finish func(string)) {
		conn, r := dial(t, f)
		write(t, conn, text)
		clients = append(clients, client{what, r, status})
		return func(rest string) { write(t, conn, rest) }
	}
	var finish []func(string)
	halfBody := strings.TrimSuffix(post(`{}`), "}")
	for range each {
		add("waits", post(`{"waitSeconds":30}`), http.StatusServiceUnavailable)
		finish = append(finish, add("ends its body later", halfBody, http.StatusConflict))
		add("never ends its body", halfBody, http.StatusBadRequest)
	}
	for range each {
		_, r := dial(t, f) // silent
		clients = append(clients, client{"is silent", r, 0})
	}
	await(t, "all wait", func() bool { return f.ledger.Waiting() == each })
	// The first lease, and three kinds of request: none of them may be the one that the gate holds.
	await(t, "all have begun", func() bool { return calls.Load() >= 1+3*each })
	gated.Store(true)
	for range each {
		add("is in flight", request("GET", "/v1/proxies/ns/full"), http.StatusOK)
	}
	await(t, "all are in flight", func() bool { return entered.Load() == each })
	start := time.Now()
	f.stop()
	await(t, "the listener is closed", func() bool { return leaseRefused(f) })
	gated.Store(false)
	close(proceed)
	for _, end := range finish {
		end("}")
	}
	for _, c := range clients {
		if c.status == 0 {
			if _, err := c.r.Peek(1); err == nil {
				t.Errorf("who %s got an answer", c.what)
			}
			continue
		}
		if got := readStatus(t, c.r); got != c.status {
			t.Errorf("who %s got %d, want %d", c.what, got, c.status)
		}
	}
	if err := f.wait(); err != nil {
		t.Errorf("Start = %v", err)
	}
	if took := time.Since(start); took >= DefaultShutdownTimeout {
		t.Errorf("took %s", took)
	}
}

// leaseRefused tells whether nothing listens any more.
func leaseRefused(f *fixture) bool {
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

// What does not end by itself is cut off in time, and the log says so once. A client that does not read is no failure.
func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	f := newFixture(t)
	putLarge(f)
	for range 3 {
		conn := unread(t, f)
		if _, err := conn.Read(make([]byte, 1)); err != nil { // so it is being written
			t.Fatal(err)
		}
	}
	dial(t, f) // silent, so no request
	start := time.Now()
	f.stop()
	if err := f.wait(); err != nil {
		t.Errorf("Start = %v", err)
	}
	if took := time.Since(start); took >= 10*time.Second {
		t.Errorf("took %s", took)
	}
	if logs := f.logs.String(); strings.Count(logs, `cut off`) != 1 || !strings.Contains(logs, `"requests"=3`) {
		t.Errorf("the log says\n%s", logs)
	}
}
