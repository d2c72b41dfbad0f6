package session_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

// rig is a host with a daemon in memory, reached by libvirt's protocol.
type rig struct {
	*session.Host
	t      *testing.T
	daemon *libvirttest.Daemon
	server *wiretest.Server
	dials  atomic.Int32
	open   atomic.Int32 // connections that the client has not closed

	mu   sync.Mutex
	dial func(ctx context.Context) (net.Conn, error) // in the place of the server's
}

// bubble runs a test in which time passes only while everything waits. What it leaves running fails it.
func bubble(t *testing.T, name string, change func(*session.Options), test func(t *testing.T, r *rig)) {
	t.Helper()
	run := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newRig(t, change)) })
	}
	if name == "" {
		run(t)
	} else {
		t.Run(name, run)
	}
}

func newRig(t *testing.T, change func(*session.Options)) *rig {
	t.Helper()
	d := libvirttest.NewDaemon()
	api, err := d.Speak(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, daemon: d, server: wiretest.New(t, api)}
	r.dial = func(context.Context) (net.Conn, error) { return r.server.Dial() }
	opts := session.Options{Name: "hv", Clock: clock.RealClock{}, Dial: r.dialer}
	if change != nil {
		change(&opts)
	}
	r.Host = session.New(opts)
	t.Cleanup(r.Close)
	return r
}

func (r *rig) dialer(ctx context.Context) (net.Conn, error) {
	r.dials.Add(1)
	r.mu.Lock()
	dial := r.dial
	r.mu.Unlock()
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	r.open.Add(1)
	return &counted{Conn: c, open: &r.open}, nil
}

// reach changes how the host is reached.
func (r *rig) reach(dial func(ctx context.Context) (net.Conn, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dial = dial
}

type counted struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// lookup makes a call that the daemon answers by a refusal.
func lookup(ctx context.Context, h *session.Host, name string) (libvirt.Domain, error) {
	return session.Call(ctx, h, "DomainLookupByName", func(api session.API) (libvirt.Domain, error) { return api.DomainLookupByName(name) })
}

func version(ctx context.Context, h *session.Host) error {
	_, err := session.Call(ctx, h, "ConnectGetVersion", session.API.ConnectGetVersion)
	return err
}

// works checks that a call is answered, with what was asked for.
func (r *rig) works(when string) {
	r.t.Helper()
	if _, err := lookup(r.t.Context(), r.Host, when); !session.Absent(err) || !strings.Contains(err.Error(), "'"+when+"'") {
		r.t.Errorf("%s: %v", when, err)
	}
}

// going makes a call that is not waited for. Its error comes over the channel.
func (r *rig) going(ctx context.Context) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := lookup(ctx, r.Host, "going")
		out <- err
	}()
	return out
}

// connections checks how often the host was connected to, and how many connections both sides have open.
func (r *rig) connections(when string, served, open int) {
	r.t.Helper()
	synctest.Wait()
	if s, o, c := r.server.Served(), r.server.Open(), int(r.open.Load()); s != served || o != open || c != open {
		r.t.Errorf("%s: %d connections of which %d are open there and %d here, want %d and %d", when, s, o, c, served, open)
	}
}

// times returns how often a procedure was called.
func (r *rig) times(name string) (n int) {
	for _, call := range r.server.Calls() {
		if call == name {
			n++
		}
	}
	return n
}

// on is a fault of the calls of that name.
func on(name string, f func(*wiretest.Call)) func(*wiretest.Call) bool {
	return func(c *wiretest.Call) bool {
		if c.Name != name {
			return false
		}
		f(c)
		return true
	}
}

// unanswered is a call that the daemon works on without an end.
func unanswered(*wiretest.Call) {}

func silent(c *wiretest.Call) { c.Conn.Silence() }

// took returns how long do takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func received(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(time.Hour):
		t.Fatal("nobody has freed it")
		return nil
	}
}
