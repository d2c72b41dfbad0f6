package gcp_test

import (
	"fmt"
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const entry = "cloud"

var owner = provider.Owner{Installation: "gcp-test", Cluster: "cluster-a"}

// world is an emulator of its own, on a clock of its own, that the provider reaches over HTTP.
type world struct {
	t        providertest.T
	emulator *gcpemulator.Server
	window   provider.Window
	extra    string // further lines of the entry's block
	firewall string // and its line about clients
	settings gcp.Settings

	mu    sync.Mutex
	clock *clocktesting.FakePassiveClock
	uids  int
}

func newWorld(t providertest.T, opts gcpemulator.Options) *world {
	t.Helper()
	c := clocktesting.NewFakePassiveClock(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
	opts.Clock = c
	e, err := gcpemulator.New(opts).Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing the emulator: %v", err)
		}
	})
	return &world{
		t: t, emulator: e, clock: c, firewall: restricted,
		window: provider.Window{Clock: c, CallTimeout: 30 * time.Second, Visibility: gcp.Visibility, Skew: 5 * time.Second},
	}
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.SetTime(w.clock.Now().Add(d))
}

// provider constructs one as a process that has just started would.
func (w *world) provider() *gcp.Provider { return w.providerOf(entry, owner) }

func (w *world) providerOf(name string, o provider.Owner) *gcp.Provider {
	w.t.Helper()
	p, err := w.open(name, o, fmt.Sprintf("project: project-a\nendpoint: %s/compute/v1/\nanonymous: true\n%s", w.emulator.URL, w.extra))
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (w *world) open(name string, o provider.Owner, config string) (*gcp.Provider, error) {
	block, err := registry.ParseBlock(gcp.Type, []byte(config+w.firewall))
	if err != nil {
		return nil, err
	}
	p, err := w.settings.New(w.t.Context(), provider.Options{Name: name, Block: block, Owner: o, Window: w.window})
	if err != nil {
		return nil, err
	}
	return p.(*gcp.Provider), nil
}

func (w *world) request() provider.CreateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids)
	return provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: "crawlers", ProxyName: fmt.Sprintf("exit.%d", w.uids), Port: 3128,
		Placement: provider.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"},
		Spec:      "v1-0123456789abcdef",
	}
}

func (w *world) ref(req provider.CreateRequest, attempt int64) provider.Ref {
	return provider.Ref{
		ID:  "projects/project-a/zones/" + req.Placement.Zone + "/instances/" + req.Name,
		UID: req.UID, Attempt: attempt, RequestedAt: w.clock.Now(),
	}
}

func must(t providertest.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatalf("%v", err)
	}
}
