package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

// A daemon that stops to answer while it is being opened does not hold up longer than dialing may take.
func TestStalls(t *testing.T) {
	for _, at := range []string{"AuthList", "ConnectOpen", "ConnectGetCapabilities"} {
		bubble(t, at, func(o *session.Options) { o.UUID = "01234567-89ab-cdef-0123-456789abcdef" }, func(t *testing.T, r *rig) {
			r.server.SetFault(on(at, silent))
			all := []<-chan error{r.going(t.Context()), r.going(t.Context())}
			if d := took(func() {
				for _, c := range all {
					if err := received(t, c); !session.Unopened(err) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 10s") {
						t.Error(err)
					}
				}
			}); d != 10*time.Second {
				t.Errorf("it took %v", d)
			}
			r.connections("afterwards", 1, 0)
			// The caller's own time is shorter.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := version(ctx, r.Host); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if _, err := r.Open(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			r.Close()
			r.connections("closed", 3, 0)
		})
	}
}

// Who hangs up before libvirt has been opened is not a connection that was lost.
func TestHangsUpWhileOpening(t *testing.T) {
	for _, at := range []string{"AuthList", "ConnectOpen"} {
		bubble(t, at, nil, func(t *testing.T, r *rig) {
			r.server.SetFault(on(at, func(c *wiretest.Call) { c.Conn.Cut() }))
			if err := version(t.Context(), r.Host); !session.Unopened(err) || session.Lost(err) {
				t.Error(err)
			}
			r.server.SetFault(on(at, func(c *wiretest.Call) {
				c.Conn.Send(c.Refuse(libvirt.Error{Code: uint32(libvirt.ErrAuthUnavailable), Message: "polkit"}).Bytes())
			}))
			err := version(t.Context(), r.Host)
			if e, ok := errors.AsType[libvirt.Error](err); !ok || session.Unopened(err) || e.Code != uint32(libvirt.ErrAuthUnavailable) {
				t.Error(err)
			}
			r.connections("refused", 2, 0)
			r.server.SetFault(nil)
			r.works("afterwards")
			r.connections("after all", 3, 1)
		})
	}
}

func TestCutInMidAnswer(t *testing.T) {
	for n := range 44 {
		bubble(t, fmt.Sprint(n), nil, func(t *testing.T, r *rig) {
			r.works("before")
			r.server.SetFault(on("ConnectGetVersion", func(c *wiretest.Call) {
				c.Conn.Send(c.Answer(make([]byte, 16)).Bytes()[:n])
				c.Conn.Cut()
			}))
			other := r.going(t.Context())
			if err := received(t, other); !session.Absent(err) {
				t.Error(err)
			}
			if err := version(t.Context(), r.Host); !session.Lost(err) || session.Unopened(err) {
				t.Error(err)
			}
			r.server.SetFault(nil)
			r.works("the next call")
			r.connections("after all", 2, 1)
		})
	}
}

// Answers may come in any pieces.
func TestPieces(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.server.SetFault(on("ConnectGetVersion", func(c *wiretest.Call) {
			b := c.Answer([]byte{0, 0, 0, 0, 0, 0, 4, 0}).Bytes()
			b = append(b, c.Stream(socket.StatusContinue, []byte("nobody waits for this")).Bytes()...)
			for i := range b {
				c.Conn.Send(b[i : i+1])
			}
		}))
		for range 20 {
			v, err := session.Call(t.Context(), r.Host, "ConnectGetVersion", session.API.ConnectGetVersion)
			if err != nil || v != 1024 {
				t.Error(v, err)
			}
		}
		r.connections("after all", 1, 1)
	})
}

// What is no packet ends the connection, and is not given the memory that it claims.
func TestGarbage(t *testing.T) {
	packet := func(length uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, length)
		return append(b, make([]byte, 1000)...)
	}
	garbage := map[string][]byte{
		"text":       []byte("220 mail.example ESMTP\r\n"),
		"nothing":    packet(0),
		"too little": packet(27),
		"too much":   packet(32<<20 + 65),
		"4 GiB":      packet(1<<32 - 1),
		"2 GiB":      packet(1 << 31),
		"HTTP":       []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
		"TLS":        {0x15, 3, 3, 0, 2, 2, 0x28},
	}
	for name, raw := range garbage {
		for _, at := range []string{"AuthList", "ConnectOpen", "ConnectGetVersion"} {
			bubble(t, name+" at "+at, nil, func(t *testing.T, r *rig) {
				r.server.SetFault(on(at, func(c *wiretest.Call) {
					b := bytes.Clone(raw)
					if len(b) > 1000 { // with the rest of a header that is right
						copy(b[4:], c.Answer(nil).Bytes()[4:])
					}
					c.Conn.Send(b)
				}))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				other := r.going(t.Context())
				synctest.Wait()
				err := version(t.Context(), r.Host)
				if at == "ConnectGetVersion" && !session.Lost(err) || at != "ConnectGetVersion" && !session.Unopened(err) {
					t.Error(err)
				}
				_ = received(t, other)
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
					t.Errorf("it took %d MiB of memory", n>>20)
				}
				synctest.Wait()
				if n := r.open.Load(); n != 0 {
					t.Errorf("%d connections are open", n)
				}
				r.server.SetFault(nil)
				r.works("the next call")
			})
		}
	}
}

// The client library keeps a lock while it hands over a packet, and does so for good if nobody takes it. So it has to get none
// that nobody waits for.
func TestPacketsThatNobodyWaitsFor(t *testing.T) {
	event := func(c *wiretest.Call) wiretest.Packet {
		p := c.Packet
		p.Procedure, p.Type, p.Payload = 318, socket.Message, make([]byte, 64)
		return p
	}
	superfluous := map[string]func(c *wiretest.Call) []wiretest.Packet{
		"the same twice": func(c *wiretest.Call) []wiretest.Packet {
			a := c.Answer(make([]byte, 8))
			return []wiretest.Packet{a, a, a}
		},
		"an error after it": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Answer(make([]byte, 8)), c.Refuse(io.EOF)}
		},
		"a stream": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Stream(0, nil), c.Stream(2, []byte("x")), c.StreamError(io.EOF), c.Answer(make([]byte, 8)), c.Stream(0, nil), c.StreamError(io.EOF)}
		},
		"an event": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{event(c), c.Answer(make([]byte, 8)), event(c)}
		},
		"one with its number": func(c *wiretest.Call) []wiretest.Packet {
			e := event(c)
			e.Procedure = c.Procedure
			return []wiretest.Packet{e, c.Answer(make([]byte, 8)), e}
		},
		"another program": func(c *wiretest.Call) []wiretest.Packet {
			p := c.Answer(nil)     // which would be no answer
			p.Program = 0x6b656570 // keepalive
			return []wiretest.Packet{p, c.Answer(make([]byte, 8)), p}
		},
		"another call": func(c *wiretest.Call) []wiretest.Packet {
			p := c.Answer(make([]byte, 8))
			p.Serial += 1000
			q := p
			q.Serial = 1
			return []wiretest.Packet{p, q, c.Answer(make([]byte, 8)), p, q}
		},
	}
	for name, packets := range superfluous {
		bubble(t, name, nil, func(t *testing.T, r *rig) {
			r.server.SetFault(on("ConnectGetVersion", func(c *wiretest.Call) {
				var b []byte
				for _, p := range packets(c) {
					b = append(b, p.Bytes()...)
				}
				c.Conn.Send(b)
			}))
			for range 50 {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						if err := version(ctx, r.Host); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			}
			r.works("afterwards")
			r.connections("after all", 1, 1)
		})
	}
}

// send uploads content to a volume.
func send(ctx context.Context, h *session.Host, name string, from io.Reader, length int) error {
	_, err := session.Call(ctx, h, "StorageVolUpload", func(api session.API) (struct{}, error) {
		return struct{}{}, api.StorageVolUpload(libvirt.StorageVol{Pool: "default", Name: name}, from, 0, uint64(length), 0)
	})
	return err
}

func TestUploads(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		for _, size := range []int{0, 1, 4095, 4 << 20, 9<<20 + 5} {
			name := fmt.Sprintf("v%d", size)
			r.daemon.AddVolume(name, uint64(size))
			want := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
			if err := send(t.Context(), r.Host, name, bytes.NewReader(want), size); err != nil {
				t.Error(err)
			}
			if got, ok := r.daemon.Volume(name); !ok || !bytes.Equal(got, want) {
				t.Errorf("%d bytes have become %d", size, len(got))
			}
		}
		if err := send(t.Context(), r.Host, "gone", strings.NewReader("x"), 1); !session.Absent(err) {
			t.Error(err)
		}
		r.works("afterwards")
		r.connections("after all", 1, 1)
	})
}

// An upload that the daemon cannot finish is none that has succeeded, whatever else it says before. libvirtd says that a stream
// has ended, by an empty packet, when the process behind it dies, and then that it has failed: both with the serial of the call.
func TestUploadsThatFail(t *testing.T) {
	full := libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "No space left on device"}
	for name, says := range map[string]func(c *wiretest.Call) []wiretest.Packet{
		"plainly": func(c *wiretest.Call) []wiretest.Packet { return []wiretest.Packet{c.Answer(nil), c.StreamError(full)} },
		"after its end": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Answer(nil), c.Stream(2, nil), c.StreamError(full)}
		},
		"after some bytes": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Answer(nil), c.Stream(2, []byte("x")), c.Stream(2, nil), c.StreamError(full)}
		},
		"twice": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Answer(nil), c.StreamError(full), c.StreamError(full), c.Stream(0, nil)}
		},
		"by a reply": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Answer(nil), c.Answer(nil), c.Refuse(io.EOF), c.StreamError(full)}
		},
		"by a refusal": func(c *wiretest.Call) []wiretest.Packet {
			return []wiretest.Packet{c.Refuse(full), c.StreamError(full)}
		},
	} {
		bubble(t, name, nil, func(t *testing.T, r *rig) {
			r.daemon.AddVolume("v", 1)
			r.server.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
				for _, p := range says(c) {
					c.Conn.Send(p.Bytes())
				}
			}))
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := send(ctx, r.Host, "v", bytes.NewReader(make([]byte, 9<<20)), 9<<20)
				cancel()
				if e, ok := errors.AsType[libvirt.Error](err); !ok || e.Code != full.Code {
					t.Fatal(err)
				}
				r.works("in between")
			}
			r.server.SetFault(nil)
			if err := send(t.Context(), r.Host, "v", strings.NewReader("content"), 7); err != nil {
				t.Error(err)
			}
			r.connections("after all", 1, 1)
		})
	}
}

// An upload whose source fails, or is given up, leaves the connection to others.
func TestUploadsThatAreGivenUp(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		r.daemon.AddVolume("v", 1)
		why := errors.New("the source has failed")
		if err := send(t.Context(), r.Host, "v", io.MultiReader(strings.NewReader("con"), failing{why}), 7); !errors.Is(err, why) && !strings.Contains(err.Error(), "abort") {
			t.Error(err)
		}
		r.works("after the source has failed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		from, more := io.Pipe()
		if err := send(ctx, r.Host, "v", from, 7); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.works("after it was given up")
		if got, _ := r.daemon.Volume("v"); len(got) > 0 {
			t.Errorf("%q was taken for whole", got)
		}
		_ = more.CloseWithError(why)
		synctest.Wait()
		r.works("after its source has ended")
		r.connections("after all", 1, 1)
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A daemon that takes no more of an upload blocks whoever writes to the same connection. It is found out, too. In real time: what
// waits for a lock keeps time from passing in a bubble.
func TestAnUploadThatIsNotTaken(t *testing.T) {
	r := newRig(t, func(o *session.Options) { o.Patience = 300 * time.Millisecond })
	r.daemon.AddVolume("v", 1)
	r.works("before")
	r.server.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
		c.Conn.Send(c.Answer(nil).Bytes())
		c.Conn.Stop()
	}))
	uploaded := make(chan error, 1)
	go func() { uploaded <- send(t.Context(), r.Host, "v", bytes.NewReader(make([]byte, 4<<20)), 4<<20) }()
	for r.times("StorageVolUpload") == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var all []<-chan error
	for range 10 {
		all = append(all, r.going(t.Context()))
	}
	for err := version(ctx, r.Host); !errors.Is(err, context.DeadlineExceeded); {
		t.Fatal(err)
	}
	for _, c := range append(all, uploaded) {
		if err := received(t, c); err != nil && !session.Lost(err) && !session.Absent(err) {
			t.Error(err)
		}
	}
	r.server.SetFault(nil)
	r.works("the next call")
	r.server.Cut()
}

// half is a connection of which only one direction has broken.
type half struct {
	net.Conn
	mu     sync.Mutex
	broken bool
}

func (h *half) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken {
		return 0, errors.New("broken pipe")
	}
	return h.Conn.Write(b)
}

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
