package discovery

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

type clockWithTicker = clock.WithTicker

func dial(t *testing.T, f *fixture) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func readAnswer(t *testing.T, r *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return answer{resp, string(text)}
}

func readStatus(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	return readAnswer(t, r).StatusCode
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	entered, proceed := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(o *Options) {
		o.Leading = func() bool {
			close(entered)
			<-proceed
			return true
		}
	})
	f.put("a")
	conn, r := dial(t, f)
	write(t, conn, post(`{}`))
	<-entered
	f.stop()
	// The listener closes before Start waits for the request.
	for {
		probe, err := net.Dial("tcp", f.addr)
		if err != nil {
			break
		}
		probe.Close()
	}
	close(proceed)
	if got := readStatus(t, r); got != http.StatusCreated {
		t.Errorf("the request in flight got %d, want 201", got)
	}
	if err := f.wait(); err != nil {
		t.Errorf("Start = %v", err)
	}
}

// A connection that is in use keeps its place, one that is idle gives it to who needs it.
func TestConnectionsAreBounded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxConnections = 2 })
	begin := func(conn net.Conn, r *bufio.Reader) {
		t.Helper()
		write(t, conn, strings.Replace(post(`{}`, "Expect: 100-continue"), "\r\n\r\n{}", "\r\n\r\n", 1))
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	busy, r := dial(t, f)
	begin(busy, r)
	served := func(conn net.Conn, r *bufio.Reader) {
		t.Helper()
		write(t, conn, request("GET", "/v1/proxies"))
		if a, err := http.ReadResponse(r, nil); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", a, err)
		} else if _, err := io.Copy(io.Discard, a.Body); err != nil {
			t.Fatal(err)
		}
	}
	last, r := dial(t, f)
	served(last, r)
	for n := range 5 { // each takes the place of the one before, which is idle
		next, nextReader := dial(t, f)
		served(next, nextReader)
		if _, err := r.Peek(1); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("connection %d: %v, want it closed", n, err)
		}
		last, r = next, nextReader
	}
	begin(last, r) // so now both are in use
	late, r := dial(t, f)
	write(t, late, request("GET", "/v1/proxies"))
	if err := late.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("served beside as many as may be (%v)", err)
	}
	busy.Close()
	if err := late.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := readStatus(t, r); got != http.StatusOK {
		t.Errorf("after a place was free: %d", got)
	}
}

// One that falls idle while another waits for a place gives it up right away.
func TestAConnectionThatFallsIdleMakesRoom(t *testing.T) {
	var calls atomic.Int64
	f := newFixture(t, func(o *Options) {
		o.MaxConnections, o.Leading = 1, func() bool { calls.Add(1); return true }
	})
	first, r := dial(t, f)
	write(t, first, strings.TrimSuffix(post(`{}`), "}"))
	await(t, "the first is served", func() bool { return calls.Load() == 1 })
	second, r2 := dial(t, f)
	write(t, second, request("GET", "/v1/proxies"))
	write(t, first, "}")
	if got := readStatus(t, r); got != http.StatusConflict {
		t.Errorf("the first: %d", got)
	}
	if got := readStatus(t, r2); got != http.StatusOK {
		t.Errorf("the second: %d", got)
	}
}

func TestSlowAndIdleConnectionsEnd(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.ReadHeaderTimeout, o.ReadTimeout, o.IdleTimeout = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	})
	for reason, text := range map[string]string{
		"silent":       "",
		"half headers": "GET /v1/proxies HTTP/1.1\r\nHost:",
		"half a body":  strings.Replace(post(`{}`), "Content-Length: 2", "Content-Length: 50", 1),
		"idle":         request("GET", "/v1/proxies"),
	} {
		conn, r := dial(t, f)
		write(t, conn, text)
		if _, err := io.Copy(io.Discard, r); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: still connected", reason)
		}
	}
	if got := f.ledger.Live(); got != 0 {
		t.Errorf("%d leases came out of it", got)
	}
}

func TestStartFailsClearly(t *testing.T) {
	f := newFixture(t)
	if err := f.server.Start(t.Context()); err == nil {
		t.Error("started twice without an error")
	}
	other, err := New(Options{BindAddress: f.addr, Fleet: f.fleet, Ledger: f.ledger, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context()); err == nil || !strings.Contains(err.Error(), f.addr) {
		t.Errorf("taken address: %v", err)
	}
	if _, err := other.Addr(t.Context()); err == nil {
		t.Error("Addr of a server that could not listen returned no error")
	}
	if f.server.NeedLeaderElection() {
		t.Error("the server runs on every replica")
	}
}

func TestTakersOverHTTP(t *testing.T) {
	const takers = 200
	f := newFixture(t)
	f.put("a", withCap(1))
	old := f.acquire(t, `{"ttlSeconds":60}`)
	f.clock.Step(time.Minute - time.Millisecond)
	for step, want := range []int64{0, 1, 0} {
		var granted, refused atomic.Int64
		failures := make(chan error, takers)
		gate := make(chan struct{})
		for range takers {
			go func() {
				<-gate
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr+"/v1/leases", strings.NewReader(`{}`))
				if err != nil {
					failures <- err
					return
				}
				req.Header.Set("Authorization", "Bearer "+testToken)
				resp, err := f.client.Do(req)
				if err != nil {
					failures <- err
					return
				}
				resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusCreated:
					granted.Add(1)
				case http.StatusConflict:
					refused.Add(1)
				default:
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
				failures <- err
			}()
		}
		close(gate)
		for range takers {
			if err := <-failures; err != nil {
				t.Fatal(err)
			}
		}
		if granted.Load() != want || refused.Load() != takers-want {
			t.Errorf("step %d: %d granted and %d refused, want %d granted", step, granted.Load(), refused.Load(), want)
		}
		f.clock.Step(time.Millisecond)
		if step > 0 {
			// Late, so without effect on who holds the proxy now.
			f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+old.LeaseID, "")
		}
	}
}
