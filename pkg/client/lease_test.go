package client

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// stepToRenewal moves time to where l's next renewal has begun and waits until it has succeeded.
func (r *rig) stepToRenewal(l *Lease) {
	r.t.Helper()
	before := l.ExpiresAt()
	r.step(l.left()/2, 1)
	r.steps(100*time.Millisecond, "a renewal", func() bool { return l.ExpiresAt().After(before) || closed(l.Done()) })
	must(r.t, l.Err())
}

func TestAShortLeaseLivesAsLongAsItIsHeld(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Second})
	start := r.clock.Now()
	for r.clock.Now().Sub(start) < time.Minute {
		before := l.ExpiresAt()
		r.step(l.left()/2+time.Millisecond, 1)
		eventually(t, "renewal", func() bool { return l.ExpiresAt().After(before) || closed(l.Done()) })
		if err := l.Err(); err != nil {
			t.Fatalf("lost after %v: %v", r.clock.Now().Sub(start), err)
		}
		if n := r.ledger.Live(); n != 1 {
			t.Fatalf("%d leases are live", n)
		}
	}
	must(t, l.Release(t.Context()))
	renewals := r.count("POST", leasesPath+"/"+l.ID()+"/renew")
	r.clock.Step(time.Hour)
	if n := r.count("POST", leasesPath+"/"+l.ID()+"/renew"); n != renewals || n < 60 {
		t.Errorf("%d renewals until the release, %d after", renewals, n-renewals)
	}
}

func TestALeaseInRealTimeOutlivesItsTTL(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client(realTime)
	l := r.acquire(c, Request{TTL: time.Second})
	first := l.ExpiresAt()
	// The server's clock stands still; the client's must renew all the same.
	eventually(t, "three renewals", func() bool { return l.ExpiresAt().Sub(first) > 1200*time.Millisecond })
	must(t, l.Err())
}

func TestRenewalSurvivesTrouble(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Minute})
	renewing := func(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/renew") }
	r.cutAnswers(3, renewing)
	r.stepToRenewal(l)
	var tries atomic.Int32
	r.on(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		switch tries.Add(1) {
		case 1:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"unauthorized","message":"x"}`))
		case 2:
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			_, _ = w.Write([]byte(`<html>`))
		default:
			return false
		}
		return true
	})
	r.stepToRenewal(l)
	if tries.Load() < 4 {
		t.Errorf("%d tries", tries.Load())
	}
}

func TestALeaseThatCannotBeRenewedIsLostInTime(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Minute})
	r.on(func(http.ResponseWriter, *http.Request, http.Handler) bool { panic(http.ErrAbortHandler) })
	expires := l.ExpiresAt()
	for !closed(l.Done()) && r.clock.Now().Before(expires) {
		r.clock.Step(time.Second)
	}
	wantClosed(t, "the loss", l.Done())
	wantIs(t, l.Err(), ErrExpired)
	if _, err := l.HTTPProxy(nil); !errors.Is(err, ErrExpired) {
		t.Errorf("HTTPProxy still leads somewhere: %v", err)
	}
	r.before.Store(nil)
}

func TestWhatTheServerDisownsIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(r *rig, l *Lease)
		want error
	}{
		"released by somebody": {func(r *rig, l *Lease) { must(r.t, r.ledger.Release(l.ID(), "default")) }, ErrUnknownLease},
		"proxy removed":        {func(r *rig, _ *Lease) { r.remove("a") }, ErrProxyGone},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put("a")
			c := r.client()
			l := r.acquire(c, Request{TTL: time.Minute})
			test.end(r, l)
			r.step(31*time.Second, 1)
			wantClosed(t, "the loss", l.Done())
			wantIs(t, l.Err(), test.want)
			if !closed(l.Ending()) {
				t.Error("Ending is open")
			}
			must(t, l.Release(t.Context()))
			if n := r.count("DELETE", leasesPath+"/"+l.ID()); n != 0 {
				t.Error("a lost lease was released at the server")
			}
		})
	}
}

func TestADrainingProxyServesUntilItsLeaseExpires(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Minute})
	r.put("a", draining)
	expires := l.ExpiresAt()
	r.step(31*time.Second, 1)
	wantClosed(t, "the end of renewal", l.Ending())
	if closed(l.Done()) || !l.ExpiresAt().Equal(expires) {
		t.Fatalf("lost already: %v", l.Err())
	}
	if _, err := l.HTTPProxy(nil); err != nil {
		t.Error(err)
	}
	r.clock.Step(28 * time.Second)
	if closed(l.Done()) {
		t.Fatal("lost before it expired")
	}
	r.clock.Step(time.Second)
	wantClosed(t, "the expiry", l.Done())
	wantIs(t, l.Err(), ErrExpired)
}

func TestTheLongestLifeEndsARenewal(t *testing.T) {
	r := newRig(t, func(o *lease.Options) { o.MaxLifetime = 90 * time.Second })
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{TTL: time.Minute})
	r.step(31*time.Second, 1)
	eventually(t, "renewal", func() bool { return closed(l.Ending()) })
	if closed(l.Done()) || l.left() < 55*time.Second {
		t.Fatalf("%v, %v left", l.Err(), l.left())
	}
	r.clock.Step(59 * time.Second)
	wantClosed(t, "the expiry", l.Done())
	if n := r.count("POST", leasesPath+"/"+l.ID()+"/renew"); n != 1 {
		t.Errorf("%d renewals", n)
	}
}
