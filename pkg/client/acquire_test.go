package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestALeaseSaysWhatIsLeased(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	l := r.acquire(c, Request{Selector: map[string]string{"country": "de"}, Namespace: "ns", TTL: time.Minute, Target: "Shop.Example.", Prefer: PreferRotation})
	p := l.Proxy()
	if p.Name != "a" || p.Namespace != "ns" || p.URL != "http://a.proxies.test:3128" || p.ExitAddress != "198.51.100.7" ||
		p.Attributes["country"] != "de" || p.Latency != 12*time.Millisecond || p.MaxConcurrentLeases != 1 || !p.Healthy {
		t.Errorf("proxy is %+v", p)
	}
	if p.Auth == nil || p.Auth.Username != testUser || p.Auth.Password.Reveal() != testPassword {
		t.Error("credentials are missing or wrong")
	}
	if l.Target() != "shop.example" || !l.ExpiresAt().Equal(r.clock.Now().Add(time.Minute)) || l.Err() != nil || closed(l.Done()) || closed(l.Ending()) {
		t.Errorf("%v: target %q, expires %v, error %v", l, l.Target(), l.ExpiresAt(), l.Err())
	}
	must(t, l.Release(t.Context()))
	wantIs(t, l.Err(), ErrReleased)
	must(t, l.Release(t.Context()))
	r.wantLive(0)
	if n := r.count("DELETE", leasesPath+"/"+l.ID()); n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestRequestsOutOfBoundsNameTheField(t *testing.T) {
	c := newRig(t).client()
	for field, req := range map[string]Request{
		"TTL":    {TTL: 1500 * time.Millisecond},
		"Wait":   {Wait: -1},
		"Prefer": {Prefer: "cheap"},
		"target": {Target: "https://shop.example/"},
	} {
		if _, err := c.Acquire(t.Context(), req); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error is %v", field, err)
		}
	}
	if _, err := c.Acquire(t.Context(), Request{TTL: 48 * time.Hour}); !errors.Is(err, ErrTTLOutOfRange) {
		t.Errorf("error is %v", err)
	}
	if _, err := c.Acquire(t.Context(), Request{Namespace: "No Namespace"}); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("error is %v", err)
	}
}

func TestNoMatchSaysWhy(t *testing.T) {
	r := newRig(t)
	c := r.client()
	_, err := c.Acquire(t.Context(), Request{Wait: time.Hour})
	var none *NoMatchError
	if !errors.As(err, &none) || none.Considered != 0 || none.RetryAfter != 0 {
		t.Fatalf("error is %v, want a NoMatchError at once: waiting is no use", err)
	}
	r.put("a")
	r.put("b", draining)
	first := r.acquire(c, Request{TTL: 20 * time.Second})
	_, err = c.Acquire(t.Context(), Request{})
	wantIs(t, err, ErrNoMatch)
	if !errors.As(err, &none) || none.Considered != 2 || none.AtCapacity != 1 || none.Unhealthy != 1 || none.RetryAfter < 5*time.Second {
		t.Fatalf("%+v", none)
	}
	if !none.FreeAt.Equal(first.ExpiresAt()) {
		t.Errorf("free at %v, want %v", none.FreeAt, first.ExpiresAt())
	}
}

// The wait is longer than the server takes in one request, and the proxy is freed in the second slice.
func TestWaitIsSentInSlices(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client()
	held := r.acquire(c, Request{TTL: time.Hour})
	var bodies atomic.Int32
	r.on(func(_ http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		if acquiring(req) {
			bodies.Add(1)
		}
		return false
	})
	got := make(chan *Lease, 1)
	go func() {
		l, err := c.Acquire(t.Context(), Request{Wait: 10 * time.Minute, TTL: 5 * time.Second})
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	r.steps(time.Second, "second slice", func() bool { return bodies.Load() >= 2 })
	// Longer than the TTL: counted from when the slice was asked for, the lease would be over at once.
	r.clock.Step(10 * time.Second)
	must(t, held.Release(t.Context()))
	var l *Lease
	r.steps(250*time.Millisecond, "the lease", func() bool {
		select {
		case l = <-got:
			return true
		default:
			return false
		}
	})
	// Granted at an unknown moment of the wait, it is renewed before it is given out, so its expiry is known.
	if l == nil || l.left() <= 0 {
		t.Fatalf("%v has %v left", l, l.left())
	}
	r.wantLive(1)
}

func TestContextEndsEveryPhase(t *testing.T) {
	phases := map[string]func(t *testing.T, r *rig) *Client{
		"before": func(_ *testing.T, r *rig) *Client { return r.client(realTime) },
		"no answer": func(t *testing.T, r *rig) *Client {
			address := silent(t)
			return r.client(realTime, func(o *Options) { o.BaseURL = "http://" + address })
		},
		"in the queue": func(t *testing.T, r *rig) *Client {
			r.put("a")
			c := r.client(realTime)
			r.acquire(c, Request{})
			return c
		},
		"between two tries": func(_ *testing.T, r *rig) *Client {
			r.leading.Store(false)
			return r.client() // its clock stands still
		},
		"token": func(_ *testing.T, r *rig) *Client {
			return r.client(realTime, func(o *Options) {
				o.Token, o.TokenSource = "", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
			})
		},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := phase(t, r)
			live := r.ledger.Live()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if name == "before" {
				cancel()
			}
			start := time.Now()
			_, err := c.Acquire(ctx, Request{Wait: time.Hour})
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Fatalf("error is %v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			must(t, c.Close(t.Context()))
			if now := r.ledger.Live(); now > live {
				t.Errorf("%d leases are left", now)
			}
		})
	}
}

func TestTwoHundredAtOnce(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		r.put("p"+string(rune('a'+i)), func(p *fleet.Proxy) { p.Cap = 2 })
	}
	c := r.client(realTime)
	var held, most atomic.Int32
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			l, err := c.Acquire(t.Context(), Request{Wait: 10 * time.Minute, TTL: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			for n := held.Add(1); ; {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			held.Add(-1)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 40 {
		t.Errorf("%d leases were held at one time", most.Load())
	}
	r.wantLive(0)
}
