package session_test

import (
	"bytes"
	"context"
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

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

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
