package session_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// That a connection has broken may show first to the one who writes.
func TestWritesThatFail(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		var h *half
		r.reach(func(context.Context) (net.Conn, error) {
			c, err := r.server.Dial()
			h = &half{Conn: c}
			return h, err
		})
		r.works("before")
		h.mu.Lock()
		h.broken = true
		h.mu.Unlock()
		if err := version(t.Context(), r.Host); !session.Lost(err) {
			t.Errorf("not lost: %v", err)
		}
		r.works("the next call")
		r.connections("after all", 2, 1)
	})
}

// libvirtd restarts.
func TestRestart(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.server.SetFault(nil)
			r.works("before")
			r.server.SetFault(on("DomainLookupByName", unanswered))
			waiting := r.going(t.Context())
			synctest.Wait()
			r.reach(func(context.Context) (net.Conn, error) { return nil, errors.New("no such file") })
			r.server.Cut()
			if err := received(t, waiting); !session.Lost(err) {
				t.Error(err)
			}
			if err := version(t.Context(), r.Host); err == nil || err.Error() != "no such file" {
				t.Error(err)
			}
			r.reach(func(context.Context) (net.Conn, error) { return r.server.Dial() })
			r.server.SetFault(nil)
			r.works("the next call")
			r.connections("back", i+2, 1)
		}
	})
}

func TestClose(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, r *rig){
		"unused":       func(*testing.T, *rig) {},
		"connected":    func(_ *testing.T, r *rig) { r.works("before") },
		"during calls": func(_ *testing.T, r *rig) { r.works("before"); r.server.SetFault(on("DomainLookupByName", unanswered)) },
		"silent":       func(_ *testing.T, r *rig) { r.works("before"); r.server.SetFault(on("DomainLookupByName", silent)) },
		"during dial": func(_ *testing.T, r *rig) {
			r.reach(func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() })
		},
		"during a dial that succeeds": func(_ *testing.T, r *rig) {
			r.reach(func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return r.server.Dial() })
		},
		"during the opening": func(_ *testing.T, r *rig) { r.server.SetFault(on("ConnectOpen", silent)) },
		"during a rest": func(_ *testing.T, r *rig) {
			r.reach(func(context.Context) (net.Conn, error) { return nil, errRefused })
			_ = version(r.t.Context(), r.Host)
		},
	} {
		bubble(t, name, nil, func(t *testing.T, r *rig) {
			before(t, r)
			var all []<-chan error
			if name != "unused" && name != "connected" && name != "during a rest" {
				for range 10 {
					all = append(all, r.going(t.Context()))
				}
			}
			synctest.Wait()
			if d := took(func() {
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						r.Close()
						if n := r.open.Load(); n != 0 {
							t.Errorf("%d connections are open after Close", n)
						}
					})
				}
				wg.Wait()
				r.Close()
				for _, c := range all {
					if err := received(t, c); !session.Lost(err) {
						t.Errorf("one that waits: %v", err)
					}
				}
			}); d != 0 {
				t.Errorf("it took %v", d)
			}
			if err := version(t.Context(), r.Host); !session.Lost(err) {
				t.Errorf("a call afterwards: %v", err)
			}
			if l, err := r.Open(t.Context()); err == nil {
				t.Errorf("a connection afterwards: %v", l)
			}
			synctest.Wait()
			if n := r.open.Load(); n != 0 {
				t.Errorf("%d connections are open", n)
			}
		})
	}
}

func on1(ctx context.Context, l *session.Link) error {
	_, err := session.On(ctx, l, "ConnectGetVersion", session.API.ConnectGetVersion)
	return err
}

func TestAConnectionOfOnesOwn(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.works("shared")
		a, err := r.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(on1(t.Context(), a), on1(t.Context(), b)); err != nil {
			t.Error(err)
		}
		r.connections("three", 3, 3)
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Error(err)
		}
		if err := on1(t.Context(), a); !session.Lost(err) {
			t.Error(err)
		}
		r.works("shared")
		if err := on1(t.Context(), b); err != nil {
			t.Error(err)
		}
		r.connections("one closed", 3, 2)
		// It ends with the host.
		r.Close()
		if err := on1(t.Context(), b); !session.Lost(err) {
			t.Errorf("after the host was closed: %v", err)
		}
		r.connections("closed", 3, 0)
	})
}

// One that has been opened just when the time for that was over is not used.
func TestOpenedTooLate(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		h := session.New(session.Options{
			Name: "hv", Clock: clock.RealClock{}, Dial: r.dialer,
			Speak: func(c net.Conn) (session.API, error) {
				_, _ = c.Read(make([]byte, 1)) // until it is closed
				return r.daemon.Speak(c)
			},
		})
		defer h.Close()
		if err := version(t.Context(), h); !session.Unopened(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
