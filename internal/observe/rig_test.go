package observe_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

const (
	interval    = time.Minute
	callTimeout = 30 * time.Second
)

var owner = provider.Owner{Installation: "mine", Cluster: "here"}

// rig is an observer in a bubble of synctest: time is the bubble's, and passes only in pass. A goroutine that is left
// when the test ends fails it.
type rig struct {
	t        *testing.T
	store    *fleet.Store
	observer *observe.Observer
	backends map[string]*providertest.Backend
	cancel   func()

	mu      sync.Mutex
	entries []registry.Handle
	woken   map[types.NamespacedName]int
	heard   []string
	n       int
}

func (x *rig) All() []registry.Handle {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.entries)
}

func (x *rig) wake(key types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.woken[key]++
}

// observing runs test in a bubble, with a rig of one provider called cloud.
func observing(t *testing.T, timeout time.Duration, test func(t *testing.T, x *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &rig{t: t, store: fleet.NewStore(), backends: map[string]*providertest.Backend{}, woken: map[types.NamespacedName]int{}, cancel: func() {}}
		x.entry("cloud", providertest.BackendOptions{})
		x.observer = observe.New(observe.Options{
			Providers: x, Store: x.store, Clock: clock.RealClock{}, Interval: interval, CallTimeout: timeout, Wake: x.wake,
			Metrics: x,
		})
		test(t, x)
		x.stop()
	})
}

// entry adds a provider on a backend of its own.
func (x *rig) entry(name string, opts providertest.BackendOptions) {
	b := providertest.NewBackend(providertest.KindGCP, clock.RealClock{}, opts)
	x.backends[name] = b
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries = append(x.entries, registry.Handle{Name: name, Provider: b.Provider(name, owner, provider.Window{CallTimeout: callTimeout})})
}

// start runs the observer; its first lists are answered on return.
func (x *rig) start() {
	ctx, cancel := context.WithCancel(x.t.Context())
	done := make(chan error, 1)
	go func() { done <- x.observer.Start(ctx) }()
	x.cancel = func() {
		x.t.Helper()
		x.cancel = func() {}
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			x.t.Errorf("Start: %v", err)
		}
		if d := time.Since(began); d > 0 {
			x.t.Errorf("ended %s after it was told to", d)
		}
	}
	synctest.Wait()
}

func (x *rig) stop() {
	x.t.Helper()
	x.cancel()
}

// pass lets time pass and everything settle.
func (x *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wakes returns who was woken since the last call, sorted.
func (x *rig) wakes() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := []string{}
	for key := range maps.Keys(x.woken) {
		out = append(out, key.Name)
	}
	clear(x.woken)
	slices.Sort(out)
	return out
}

func (x *rig) wantWoken(when string, want ...string) {
	x.t.Helper()
	if got := x.wakes(); !slices.Equal(got, want) {
		x.t.Errorf("%s: woken %v, want %v", when, got, want)
	}
}

func (x *rig) lists(name string) int { return x.backends[name].Calls(providertest.OpList) }

// create makes an instance in the zone, and a settled Proxy that has it on record.
func (x *rig) create(name, zone string, change ...func(*fleet.Proxy)) *fleet.Proxy {
	x.t.Helper()
	p := x.make("cloud", name, zone, 1)
	for _, f := range change {
		f(p)
	}
	x.store.Apply(p)
	return p
}

// make makes an instance and returns the Proxy whose status describes it.
func (x *rig) make(entry, name, zone string, attempt int64) *fleet.Proxy {
	x.t.Helper()
	x.n++
	uid := "uid-" + name
	p := x.backends[entry].Provider(entry, owner, provider.Window{CallTimeout: callTimeout})
	req := provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "ns", ProxyName: name, Placement: provider.Placement{Zone: zone}, Port: 3128, Spec: "v1-0",
	}
	id, err := p.Plan(x.t.Context(), req)
	x.must(err)
	ref := provider.Ref{ID: id, UID: uid, Attempt: attempt, RequestedAt: time.Now()}
	x.must(p.Create(x.t.Context(), req, ref))
	inst, err := p.Get(x.t.Context(), ref)
	x.must(err)
	return &fleet.Proxy{
		Key: types.NamespacedName{Namespace: "ns", Name: name}, UID: uid, Mode: v1alpha1.ModeManaged, Provider: entry,
		ProviderID: id, Attempt: attempt, Provisioned: true, ExitAddress: inst.ExitAddress,
		Endpoint: fleet.Endpoint{Scheme: "http", Host: inst.IP, Port: inst.Port},
	}
}

// fleetOf creates n Proxies.
func (x *rig) fleetOf(n int) {
	x.t.Helper()
	for i := range n {
		x.create(fmt.Sprintf("p%d", i), "")
	}
}

func (x *rig) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}
