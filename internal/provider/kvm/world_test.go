package kvm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	entry = "hypervisors"
	hostA = "hv-a"
	hostB = "hv-b"
)

var owner = provider.Owner{Installation: "kvm-test", Cluster: "cluster-a"}

// image is what guests would boot from. No guest does here.
var image = bytes.Repeat([]byte("not quite a disk "), 1<<12)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// speaking begins to speak libvirt's protocol on a connection.
type speaking = func(net.Conn) (session.API, error)

// world is two hosts with a daemon in memory each, and a server with an image.
type world struct {
	t       providertest.T
	clock   *clocktesting.FakeClock
	daemons map[string]*libvirttest.Daemon
	wires   map[string]*libvirttest.Wire
	window  provider.Window
	server  *httptest.Server
	extra   string
	hostA   string // more keys of the first host
	// dial and speak, where set, stand before the daemons'.
	dial  func(ctx context.Context, host string) (net.Conn, error)
	speak func(host string, next speaking) speaking

	mu    sync.Mutex
	uids  int
	boots bool
	late  []func() // what is on its way, and when it arrives
	due   []time.Time
}

func newWorld(t providertest.T) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), boots: true,
		daemons: map[string]*libvirttest.Daemon{hostA: libvirttest.NewDaemon(), hostB: libvirttest.NewDaemon()},
		wires:   map[string]*libvirttest.Wire{hostA: {}, hostB: {}},
	}
	w.window = provider.Window{Clock: w.clock, CallTimeout: 30 * time.Second, Visibility: kvm.Visibility, Skew: 5 * time.Second}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(image))
	}))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) block() string {
	more := ""
	if w.hostA != "" {
		more = ", " + w.hostA
	}
	return fmt.Sprintf("hosts:\n- {name: %s%s, socket: /run/a}\n- {name: %s, socket: /run/b}\n", hostA, more, hostB) +
		fmt.Sprintf("images:\n  debian: {url: %q, sha256: %s, format: raw}\n", w.server.URL+"/debian.raw", sum(image)) +
		"machineTypes:\n  small: {vcpus: 1, memoryMiB: 512, diskGiB: 4, domainType: qemu}\n" + w.extra
}

func (w *world) open(name string, o provider.Owner, block string) (*kvm.Provider, error) {
	b, err := registry.ParseBlock(kvm.Type, []byte(block))
	if err != nil {
		return nil, err
	}
	return kvm.NewOn(provider.Options{Name: name, Block: b, Owner: o, Window: w.window}, kvm.Seams{
		Dial: func(c kvm.HostConfig) func(context.Context) (net.Conn, error) {
			return func(ctx context.Context) (net.Conn, error) {
				if w.dial != nil {
					return w.dial(ctx, c.Name)
				}
				return w.daemons[c.Name].Dial()
			}
		},
		Speak: func(c kvm.HostConfig) func(net.Conn) (session.API, error) {
			speak := w.daemons[c.Name].Speak
			if w.speak != nil {
				speak = w.speak(c.Name, speak)
			}
			return w.wires[c.Name].Speak(speak)
		},
		Client: w.server.Client(),
	})
}

func (w *world) provider() *kvm.Provider { return w.providerOf(entry, owner) }

// providerOf constructs one as a process that has just started would.
func (w *world) providerOf(name string, o provider.Owner) *kvm.Provider {
	w.t.Helper()
	p, err := w.open(name, o, w.block())
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// warm brings the image to both hosts.
func (w *world) warm() {
	w.t.Helper()
	p := w.providerOf("warm", owner)
	for _, zone := range []string{hostA, hostB} {
		req := w.request()
		req.Placement.Zone = zone
		var err error
		for range 5000 {
			if _, err = p.Plan(w.t.Context(), req); err == nil {
				break
			}
			must(w.t, pause(w.t.Context()))
		}
		must(w.t, err)
	}
	must(w.t, p.Close())
}

func pause(ctx context.Context) error {
	t := time.NewTimer(2 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) request() provider.CreateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids)
	return provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "crawlers", ProxyName: fmt.Sprintf("exit-%d", w.uids), Port: 3128,
		Spec: "v1-0123456789abcdef", CloudInit: "#cloud-config\n# password\n", Placement: provider.Placement{Zone: hostA, MachineType: "small", Image: "debian"},
		Credentials: &provider.Credentials{Username: "user", Password: "password", Revision: "r1"},
	}
}

func (w *world) ref(req provider.CreateRequest, attempt int64) provider.Ref {
	return provider.Ref{ID: "hosts/" + req.Placement.Zone + "/domains/" + req.Name, UID: req.UID, Attempt: attempt, RequestedAt: w.window.Clock.Now()}
}

// old returns ref as one whose window has passed.
func (w *world) old(ref provider.Ref) provider.Ref {
	ref.RequestedAt = w.window.Clock.Now().Add(-time.Hour)
	return ref
}

func (w *world) advance(d time.Duration) {
	w.clock.Step(d)
	w.arrive(w.clock.Now())
}

// arrive lets happen what is due.
func (w *world) arrive(at time.Time) {
	w.mu.Lock()
	var now []func()
	for i := 0; i < len(w.due); {
		if w.due[i].After(at) {
			i++
			continue
		}
		now = append(now, w.late[i])
		w.due, w.late = slices.Delete(w.due, i, i+1), slices.Delete(w.late, i, i+1)
	}
	w.mu.Unlock()
	for _, f := range now {
		f()
	}
}

// later lets f happen in d.
func (w *world) later(d time.Duration, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due, w.late = append(w.due, w.window.Clock.Now().Add(d)), append(w.late, f)
}

func (w *world) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.advance(500 * time.Millisecond)
	w.mu.Lock()
	boots := w.boots
	w.mu.Unlock()
	for _, d := range w.daemons {
		if boots {
			d.Boot()
		}
	}
	return nil
}

func (w *world) daemon(id string) (*libvirttest.Daemon, string) {
	part := strings.Split(id, "/")
	return w.daemons[part[1]], part[3]
}

var errLost = errors.New("the test has lost the answer")

func must(t providertest.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
