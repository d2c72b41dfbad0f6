//go:build linux

package local_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	host     = "test-host"
	patience = 20 * time.Second
	tick     = 5 * time.Millisecond
)

var owner = provider.Owner{Installation: "local-test", Cluster: "cluster-a"}

// world is a state folder, a pool of loopback addresses of its own, and a clock.
type world struct {
	t      providertest.T
	dir    string
	port   int32
	pool   string // the pool as YAML
	extra  string // further keys
	binary string
	window provider.Window

	mu    sync.Mutex
	clock *clocktesting.FakePassiveClock
	uids  int
	// conformance keeps what the suite wants to go wrong.
	conformance
}

func newWorld(t providertest.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "epx-local-")
	must(t, err)
	c := clocktesting.NewFakePassiveClock(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
	w := &world{t: t, dir: filepath.Join(dir, "state"), binary: binary, clock: c}
	w.window = provider.Window{Clock: c, CallTimeout: 30 * time.Second, Skew: 5 * time.Second}
	block := fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), rand.IntN(256))
	w.pool = "[{listen: " + block + ".0/27}]"
	w.port = freePort(t, block+".1")
	t.Cleanup(func() {
		for _, pids := range w.processes() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		w.eventually("its processes ending", func() bool { return len(w.processes()) == 0 })
		must(t, os.RemoveAll(dir))
	})
	return w
}

// freePort returns a port that is free on every loopback address, below those that the kernel gives to outgoing
// connections.
func freePort(t providertest.T, address string) int32 {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(20000)
		if l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return int32(port)
		}
	}
	t.Fatalf("no free port on %s", address)
	return 0
}

func (w *world) config() string {
	return fmt.Sprintf("host: %s\nstateDir: %s\nbinary: %s\npool: %s\n%s", host, w.dir, w.binary, w.pool, w.extra)
}

func open(config, name string, o provider.Owner, window provider.Window) (*local.Provider, error) {
	block, err := registry.ParseBlock(local.Type, []byte(config))
	if err != nil {
		return nil, err
	}
	p, err := local.New(context.Background(), provider.Options{Name: name, Block: block, Owner: o, Window: window})
	if err != nil {
		return nil, err
	}
	return p.(*local.Provider), nil
}

// provider constructs one as a process that has just started would.
func (w *world) provider() *local.Provider { return w.providerOf("hosts", owner) }

func (w *world) providerOf(name string, o provider.Owner) *local.Provider {
	w.t.Helper()
	p, err := open(w.config(), name, o, w.window)
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (w *world) request() provider.CreateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids)
	return provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "crawlers", ProxyName: fmt.Sprintf("exit-%d", w.uids),
		Port: w.port, Spec: "v1-0123456789abcdef",
	}
}

func (w *world) ref(req provider.CreateRequest, attempt int64) provider.Ref {
	return provider.Ref{ID: "hosts/" + host + "/processes/" + req.Name, UID: req.UID, Attempt: attempt, RequestedAt: w.clock.Now()}
}

// old returns ref as one whose window has passed.
func (w *world) old(ref provider.Ref) provider.Ref {
	ref.RequestedAt = w.clock.Now().Add(-time.Minute)
	return ref
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.SetTime(w.clock.Now().Add(d))
}

// created creates an instance and returns it.
func (w *world) created(p *local.Provider, req provider.CreateRequest) (provider.Ref, *provider.Instance) {
	w.t.Helper()
	ref := w.ref(req, 1)
	must(w.t, p.Create(context.Background(), req, ref))
	return ref, w.running(p, ref)
}

func (w *world) running(p *local.Provider, ref provider.Ref) *provider.Instance {
	w.t.Helper()
	inst, err := p.Get(context.Background(), ref)
	must(w.t, err)
	if inst.State != provider.StateRunning {
		w.t.Fatalf("%s is %s (%s), want Running", ref.ID, inst.State, inst.Message)
	}
	return inst
}
