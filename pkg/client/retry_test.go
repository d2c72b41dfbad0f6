package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRetryAfterIsHonoured(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	var tries atomic.Int32
	r.on(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		if !acquiring(req) || tries.Add(1) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"overloaded","message":"x"}`))
		return true
	})
	start := r.clock.Now()
	done := make(chan *Lease, 1)
	go func() {
		l, err := c.Acquire(t.Context(), Request{})
		if err != nil {
			t.Error(err)
		}
		done <- l
	}()
	r.steps(100*time.Millisecond, "the second try", func() bool { return len(done) == 1 })
	if waited := r.clock.Now().Sub(start); waited < 7*time.Second || tries.Load() != 2 {
		t.Errorf("came back after %v, want 7s; %d tries", waited, tries.Load())
	}
	// A pause longer than what is left is not begun.
	tries.Store(0)
	r.on(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		tries.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"overloaded","message":"x"}`))
		return true
	})
	_, err := c.Acquire(t.Context(), Request{Wait: time.Minute})
	wantIs(t, err, ErrOverloaded)
	if tries.Load() != 1 {
		t.Errorf("%d tries", tries.Load())
	}
	r.before.Store(nil)
}

// Promise: a lost answer never makes a second lease.
func TestLostAnswersMakeNoSecondLease(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.put(name)
	}
	c := r.client(realTime)
	// The wait is such that what is left of it soon reads as another number of seconds: the body must not change.
	r.cutAnswers(3, acquiring)
	l := r.acquire(c, Request{Wait: 20*time.Second + 520*time.Millisecond})
	if live := r.ledger.Live(); live != 1 {
		t.Fatalf("%d leases are live", live)
	}
	must(t, l.Release(t.Context()))
	r.wantLive(0)
}

// When the caller gives up without having heard of its lease, that is found and released.
func TestALeaseNobodyHeardOfIsReleased(t *testing.T) {
	for _, wait := range []time.Duration{0, 45 * time.Second} {
		r := newRig(t)
		r.put("a")
		c := r.client(realTime)
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		r.on(func(w http.ResponseWriter, req *http.Request, pass http.Handler) bool {
			lost := false
			once.Do(func() {
				lost = true
				pass.ServeHTTP(httptest.NewRecorder(), req)
				if r.ledger.Live() != 1 {
					t.Error("no lease was made")
				}
				cancel()
				<-req.Context().Done()
			})
			return lost
		})
		_, err := c.Acquire(ctx, Request{Wait: wait})
		wantIs(t, err, context.Canceled)
		r.wantLive(0)
	}
}

func TestAStandbyIsLeftForTheLeaderOnANewConnection(t *testing.T) {
	r := newRig(t)
	r.put("a")
	r.leading.Store(false)
	c := r.client(realTime)
	var refused atomic.Int32
	r.on(func(_ http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		if refused.Add(1) == 4 {
			r.leading.Store(true)
		}
		return false
	})
	l := r.acquire(c, Request{})
	r.mu.Lock()
	if len(r.conns) < 4 {
		t.Errorf("%d connections for 4 tries", len(r.conns))
	}
	r.mu.Unlock()
	// Release and report find the leader too.
	r.leading.Store(false)
	refused.Store(0)
	must(t, l.Report(t.Context(), ResultOK, ""))
	r.leading.Store(false)
	refused.Store(0)
	must(t, l.Release(t.Context()))
	r.wantLive(0)
}

func TestAStandbyThatStaysIsAnError(t *testing.T) {
	r := newRig(t)
	r.leading.Store(false)
	c := r.client()
	done := make(chan error, 1)
	go func() {
		_, err := c.Acquire(t.Context(), Request{})
		done <- err
	}()
	r.steps(time.Second, "giving up", func() bool { return len(done) == 1 })
	wantIs(t, <-done, ErrNotLeader)
}

func TestARotatedTokenIsReadAgain(t *testing.T) {
	r := newRig(t)
	r.put("a")
	var calls atomic.Int32
	c := r.client(func(o *Options) {
		o.Token, o.TokenSource = "", func(context.Context) (string, error) {
			if calls.Add(1) == 1 {
				return "old", nil
			}
			return testToken, nil
		}
	})
	r.acquire(c, Request{})
	bad := r.client(func(o *Options) { o.Token = "wrong" })
	_, err := bad.Acquire(t.Context(), Request{})
	wantIs(t, err, ErrUnauthorized)
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the token is in %q", err)
	}
}
