package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"

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
		"too much":   packet(8<<20 + 65),
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
