package client

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// Nothing goes through a lost lease: what is under way is cut off, what comes next gets another.
func TestALostLeaseCutsOffItsRequests(t *testing.T) {
	for _, scheme := range schemes {
		w := newWeb(t)
		w.proxy("a", "127.0.0.2")
		finish := make(chan struct{})
		w.origin(func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "begin")
			_ = http.NewResponseController(rw).Flush()
			<-finish
		})
		tr := w.transport(TransportOptions{Lease: Request{TTL: time.Minute}})
		resp, err := w.send(tr, http.MethodGet, scheme+"shop.example/", nil)
		must(t, err)
		w.proxy("b", "127.0.0.3")
		w.remove("a")
		w.seen()
		w.step(31*time.Second, 2) // the renewal, and the watch for idleness
		_, err = io.ReadAll(resp.Body)
		wantIs(t, err, ErrProxyGone)
		close(finish)
		w.get(tr, scheme+"shop.example/")
		if exits := w.seen(); len(exits) != 1 || exits[0] != "127.0.0.3" {
			t.Errorf("exits are %v", exits)
		}
		drain(resp.Body)
	}
}

func TestADrainingProxyGetsNoNewRequest(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2")
	tr := w.transport(TransportOptions{Lease: Request{TTL: time.Minute}})
	w.get(tr, "http://shop.example/")
	p := *w.fleet.Get(keyOf("a"))
	p.Draining = true
	w.fleet.Apply(&p)
	w.proxy("b", "127.0.0.3")
	w.step(31*time.Second, 2)
	w.wantLive(0)
	w.get(tr, "http://shop.example/")
	if exits := w.seen(); exits[1] != "127.0.0.3" {
		t.Errorf("exits are %v", exits)
	}
}

func TestRoundTripEndsWithItsContext(t *testing.T) {
	w := newWeb(t, realTime)
	w.proxy("a", "127.0.0.2")
	tr := w.transport(TransportOptions{MaxLeases: 1, RequestsPerLease: 1, Lease: Request{Wait: time.Hour}})
	held, err := w.send(tr, http.MethodGet, "http://shop.example/", nil)
	must(t, err)
	short := func(tr *Transport) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example/", nil)
		must(t, err)
		_, err = tr.RoundTrip(req)
		return err
	}
	wantIs(t, short(tr), context.DeadlineExceeded)                                                             // waits for room
	wantIs(t, short(w.transport(TransportOptions{Lease: Request{Wait: time.Hour}})), context.DeadlineExceeded) // waits for a lease
	drain(held.Body)
	w.origin(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	wantIs(t, short(tr), context.DeadlineExceeded) // waits for the answer
	must(t, tr.Close(t.Context()))
	wantIs(t, short(tr), ErrClosed)
	w.wantLive(0)
}

func TestCloseCutsOffWhatIsUnderWay(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2")
	arrived := make(chan struct{})
	w.origin(func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() })
	tr := w.transport(TransportOptions{})
	result := make(chan error, 1)
	go func() {
		_, err := w.send(tr, http.MethodGet, "http://shop.example/", nil)
		result <- err
	}()
	wantClosed(t, "the request", arrived)
	must(t, tr.Close(t.Context()))
	wantIs(t, <-result, ErrClosed)
	w.wantLive(0)
}

// A body that can be written to, after a change of protocols, stays so.
func TestSwitchedProtocolsGoBothWays(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2")
	w.safe.EnableHTTP2 = false
	w.origin(func(rw http.ResponseWriter, _ *http.Request) {
		conn, both, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := both.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	})
	tr := w.transport(TransportOptions{RequestsPerLease: 1})
	tr.o.Base.ForceAttemptHTTP2 = false
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example/", nil)
	must(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := tr.RoundTrip(req)
	must(t, err)
	both, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%d, writable: %t", resp.StatusCode, ok)
	}
	_, err = io.WriteString(both, "ping\n")
	must(t, err)
	line, err := bufio.NewReader(both).ReadString('\n')
	if err != nil || line != "ping\n" {
		t.Errorf("%q, %v", line, err)
	}
	must(t, both.Close())
	w.wantLive(0)
}
