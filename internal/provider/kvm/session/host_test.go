package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

func TestConnectsOnce(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		free := make(chan struct{})
		r.reach(func(context.Context) (net.Conn, error) { <-free; return r.server.Dial() })
		var all []<-chan error
		for range 200 {
			all = append(all, r.going(t.Context()))
		}
		synctest.Wait()
		close(free)
		for _, c := range all {
			if err := received(t, c); !session.Absent(err) {
				t.Error(err)
			}
		}
		r.works("afterwards")
		r.connections("after all", 1, 1)
		if n := r.dials.Load(); n != 1 {
			t.Errorf("dialed %d times", n)
		}
	})
}

func TestDoesNotDialByItself(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if err := version(ctx, r.Host); !errors.Is(err, why) {
			t.Error(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
		r.connections("unused", 0, 0)
	})
}

// Whoever asked first may give up: others wait for the same connection.
func TestGivingUpEndsNoDialing(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.reach(func(ctx context.Context) (net.Conn, error) {
			select {
			case <-time.After(5 * time.Second):
				return r.server.Dial()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		first, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("given up"))
		defer cancel()
		a := r.going(first)
		synctest.Wait()
		b := r.going(t.Context())
		if d := took(func() {
			if err := received(t, a); err == nil || err.Error() != "given up" {
				t.Error(err)
			}
		}); d != time.Second {
			t.Errorf("giving up took %v", d)
		}
		if err := received(t, b); !session.Absent(err) {
			t.Error(err)
		}
		r.works("afterwards")
		r.connections("after all", 1, 1)
	})
}

func TestDialingIsBounded(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.reach(func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
		if d := took(func() {
			if err := version(t.Context(), r.Host); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 10s") {
				t.Error(err)
			}
		}); d != 10*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestACallGivenUpLeavesOthersAlone(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.works("before")
		var late *wiretest.Call
		r.server.SetFault(on("DomainLookupByName", func(c *wiretest.Call) {
			if late == nil {
				late = c
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		slow := r.going(t.Context())
		synctest.Wait()
		gone := r.going(ctx)
		if d := took(func() {
			if err := received(t, gone); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}); d != time.Second {
			t.Errorf("giving up took %v", d)
		}
		time.Sleep(9 * time.Minute) //nolint:forbidigo // in a bubble
		if n := r.times("ConnectGetLibVersion"); n < 9*4 {
			t.Errorf("the host was asked %d times whether it is alive", n)
		}
		r.server.SetFault(nil)
		for i := range 10 {
			r.works(fmt.Sprintf("after %d", i))
		}
		synctest.Wait()
		late.Conn.Send(late.Refuse(libvirt.Error{Code: uint32(libvirt.ErrNoDomain), Message: "late"}).Bytes())
		if err := received(t, slow); !session.Absent(err) || err.Error() != "late" {
			t.Error(err)
		}
		r.connections("after all", 1, 1)
	})
}

// An answer to a call that nobody waits for any more is nobody else's.
func TestLateAnswers(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		var held []*wiretest.Call
		r.server.SetFault(on("ConnectGetVersion", func(c *wiretest.Call) { held = append(held, c) }))
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := version(ctx, r.Host); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		synctest.Wait()
		for i, c := range held {
			c.Conn.Send(c.Answer(make([]byte, 8)).Bytes())
			r.works(fmt.Sprintf("after answer %d", i))
		}
		r.connections("after all", 1, 1)
	})
}

// One call that is given up is enough to find out that a host is silent.
func TestSilence(t *testing.T) {
	bubble(t, "", func(o *session.Options) { o.Patience = 7 * time.Second }, func(t *testing.T, r *rig) {
		r.works("before")
		r.server.SetFault(on("DomainLookupByName", silent))
		var all []<-chan error
		for range 20 {
			all = append(all, r.going(t.Context()))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := version(ctx, r.Host); !errors.Is(err, context.DeadlineExceeded) || session.Lost(err) {
			t.Error(err)
		}
		for _, c := range all {
			if err := received(t, c); !session.Lost(err) {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 8*time.Second {
			t.Errorf("they were freed after %v", d)
		}
		r.connections("found out", 1, 0)
		r.server.SetFault(nil)
		r.works("the next call")
		r.connections("after all", 2, 1)
	})
}

// A host that nobody calls is asked by the injected clock.
func TestKeepalive(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	bubble(t, "", func(o *session.Options) { o.Clock = clk }, func(t *testing.T, r *rig) {
		r.works("before")
		synctest.Wait()
		time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
		for i := range 3 {
			clk.Step(15*time.Second - 1)
			synctest.Wait()
			if n := r.times("ConnectGetLibVersion"); n != i {
				t.Errorf("asked %d times before interval %d has passed", n, i)
			}
			clk.Step(1)
			synctest.Wait()
			if n := r.times("ConnectGetLibVersion"); n != i+1 {
				t.Errorf("asked %d times after interval %d", n, i)
			}
		}
		// A refusal is an answer.
		r.server.SetFault(on("ConnectGetLibVersion", func(c *wiretest.Call) {
			c.Conn.Send(c.Refuse(libvirt.Error{Code: uint32(libvirt.ErrAccessDenied), Message: "no"}).Bytes())
		}))
		clk.Step(15 * time.Second)
		synctest.Wait()
		r.works("refused")
		r.connections("refused", 1, 1)
		r.server.SetFault(on("ConnectGetLibVersion", silent))
		clk.Step(15 * time.Second)
		time.Sleep(10*time.Second - 1) //nolint:forbidigo // in a bubble
		r.connections("not yet", 1, 1)
		time.Sleep(time.Nanosecond) //nolint:forbidigo // in a bubble
		r.connections("silent", 1, 0)
		r.server.SetFault(nil)
		r.works("afterwards")
		r.connections("after all", 2, 1)
	})
}

// Calls that nobody waits for any more take their places until they are answered. When there are no more, the connection goes.
func TestAbandonedCallsAreBounded(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.works("before")
		r.server.SetFault(on("DomainLookupByName", unanswered))
		before := runtime.NumGoroutine()
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := lookup(ctx, r.Host, "x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if n := runtime.NumGoroutine() - before; n > 64+8 {
			t.Errorf("%d goroutines more", n)
		}
		if n := r.times("DomainLookupByName"); n != 1+64 {
			t.Errorf("%d calls went out", n-1)
		}
		r.server.SetFault(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 26*time.Second)
		defer cancel()
		if err := version(ctx, r.Host); !session.Lost(err) {
			t.Errorf("the one who waits for a place: %v", err)
		}
		r.works("afterwards")
		r.connections("after all", 2, 1)
	})
}

func TestADeadHostBlocksNoOther(t *testing.T) {
	dead := map[string]func(t *testing.T, r *rig){
		"no way to it": func(_ *testing.T, r *rig) {
			r.reach(func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		},
		"accepts":     func(_ *testing.T, r *rig) { r.server.SetFault(on("AuthList", silent)) },
		"stalls":      func(_ *testing.T, r *rig) { r.server.SetFault(on("ConnectOpen", silent)) },
		"works on it": func(_ *testing.T, r *rig) { r.server.SetFault(on("DomainLookupByName", unanswered)) },
		"fell silent": func(_ *testing.T, r *rig) { r.works("before"); r.server.SetFault(on("DomainLookupByName", silent)) },
		"hangs up": func(_ *testing.T, r *rig) {
			r.server.SetFault(on("DomainLookupByName", func(c *wiretest.Call) { c.Conn.Cut() }))
		},
		"refuses": func(_ *testing.T, r *rig) {
			r.reach(func(context.Context) (net.Conn, error) { return nil, errors.New("refused") })
		},
		"sends rubbish": func(_ *testing.T, r *rig) {
			r.server.SetFault(on("DomainLookupByName", func(c *wiretest.Call) { c.Conn.Send(make([]byte, 100)) }))
		},
	}
	for name, kill := range dead {
		bubble(t, name, nil, func(t *testing.T, r *rig) {
			kill(t, r)
			other := newRig(t, nil)
			other.works("before")
			before := runtime.NumGoroutine()
			most := 0
			calls := 100
			if name == "accepts" || name == "works on it" || name == "fell silent" {
				calls = 1000
			}
			for range calls {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				began := time.Now()
				if _, err := lookup(ctx, r.Host, "x"); err == nil || session.Absent(err) {
					t.Fatal(err)
				}
				if d := time.Since(began); d > 2*time.Second {
					t.Fatalf("it took %v", d)
				}
				cancel()
				if d := took(func() { other.works("meanwhile") }); d != 0 {
					t.Fatalf("the other took %v", d)
				}
				most = max(most, runtime.NumGoroutine()-before)
			}
			// The bound, and per connection a handful on either side of it.
			if most > 2*64+20 {
				t.Errorf("%d goroutines more", most)
			}
			synctest.Wait()
			if n := r.open.Load(); n > 1 {
				t.Errorf("%d connections are open", n)
			}
			// All at once.
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _ = lookup(ctx, r.Host, "x")
				})
			}
			other.works("meanwhile")
			wg.Wait()
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n > 2*64+20 {
				t.Errorf("%d goroutines are left", n)
			}
			other.connections("the other", 1, 1)
		})
	}
}
