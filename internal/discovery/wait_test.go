package discovery

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// newWaitFixture has a ledger on the real clock that is running, as requests that wait need it.
func newWaitFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	f := newFixture(t, append([]func(*Options){func(o *Options) {
		ledger, err := lease.New(lease.Options{Fleet: o.Fleet, Clock: clock.RealClock{}})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger = ledger
		go func() { ended <- ledger.Start(ctx) }()
	}}, change...)...)
	f.ledger = f.server.o.Ledger
	shut := f.stop
	f.stop = func() { stop(); shut() } // the manager ends both at one time
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// await runs f until its condition holds.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestARequestWaitsForAProxy(t *testing.T) {
	// The whole request has less time for being read and answered than it waits.
	f := newWaitFixture(t, func(o *Options) { o.ReadTimeout, o.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond })
	f.put("a", withCap(1))
	held := f.acquire(t, `{}`)
	got := make(chan int, 1)
	go func() {
		defer close(got)
		conn, r := dial(t, f)
		write(t, conn, post(`{"waitSeconds":30}`))
		got <- readStatus(t, r)
	}()
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	timer := time.NewTimer(300 * time.Millisecond) // beyond both
	defer timer.Stop()
	select {
	case status := <-got:
		t.Fatalf("the wait ended with %d", status)
	case <-timer.C:
	}
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+held.LeaseID, "")
	if status := <-got; status != http.StatusCreated {
		t.Errorf("the wait ended with %d", status)
	}
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	f := newWaitFixture(t, func(o *Options) { o.WriteTimeout = 100 * time.Millisecond })
	f.put("a", withCap(1))
	f.acquire(t, `{}`)
	start := time.Now()
	if a := f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{"waitSeconds":1}`); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("waited for %s", waited)
	}
}

func TestWhoHangsUpWaitsNoLonger(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	held := f.acquire(t, `{}`)
	conn, _ := dial(t, f)
	write(t, conn, post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	conn.Close()
	await(t, "nobody waits", func() bool { return f.ledger.Waiting() == 0 })
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+held.LeaseID, "")
	if n := f.ledger.Live(); n != 0 {
		t.Errorf("%d live leases", n)
	}
}

// With a byte behind the request that waits, net/http would not notice any more that the client hangs up.
func TestARequestBehindAWaitingOneEndsItsWait(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	f.acquire(t, `{}`)
	conn, r := dial(t, f)
	for range 3 {
		f.metrics.take()
		write(t, conn, post(`{"waitSeconds":30}`))
		await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
		next := request("GET", "/v1/proxies")
		write(t, conn, next[:1])
		if got := readStatus(t, r); got != http.StatusConflict {
			t.Fatalf("the wait ended with %d", got)
		}
		if got := f.metrics.take(); got != OutcomeGone {
			t.Errorf("outcome %s", got)
		}
		write(t, conn, next[1:])
		if got := readStatus(t, r); got != http.StatusOK {
			t.Fatalf("the next request got %d", got)
		}
	}
}

// A request that came together with the one that waits ends nothing, but then hanging up is noticed.
func TestWhoHangsUpBehindTwoRequestsWaitsNoLonger(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	f.acquire(t, `{}`)
	conn, _ := dial(t, f)
	write(t, conn, post(`{"waitSeconds":30}`)+post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	conn.Close()
	await(t, "nobody waits", func() bool { return f.ledger.Waiting() == 0 })
}

// Shutting down takes no longer because somebody waits.
func TestShutdownDismissesThoseWhoWait(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	f.acquire(t, `{}`)
	conn, r := dial(t, f)
	write(t, conn, post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	f.stop()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Errorf("%s, the connection is closed: %t", resp.Status, resp.Close)
	}
	if err := f.wait(); err != nil {
		t.Errorf("Start = %v", err)
	}
}
