package scale

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// The defaults of the operator's flags.
const (
	workers             = 10
	callTimeout         = 30 * time.Second
	skew                = 5 * time.Second
	driftPoll           = time.Minute
	quotaRetry          = 5 * time.Minute
	provisioningTimeout = 15 * time.Minute
	maxReplacing        = "10%"
)

// entry is the name of the one provider.
const entry = "cloud"

var owner = provider.Owner{Installation: "mine", Cluster: "here"}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// setting is what a simulation starts from; the zero value is a cloud that answers within 100 ms and whose instances take
// half a minute from the request to traffic.
type setting struct {
	backend providertest.BackendOptions
	// latency of each call to the cloud.
	latency time.Duration
	// rotates: the provider changes credentials in place.
	rotates bool
	// judge: the operator has a judge URL.
	judge bool
	// absent: the provider's entry is not configured at first.
	absent bool
	// targetOf divides the cloud into targets.
	targetOf func(provider.Ref) string
}

// world is an operator and everything around it.
type world struct {
	t       *testing.T
	setting setting
	server  *server
	link    *link
	backend *providertest.Backend
	cloud   *cloud
	prober  *prober
	store   *fleet.Store
	ledger  *lease.Ledger
	events  *eventCounter

	providers *entries
	releaser  *proxy.Releaser
	observer  *observe.Observer

	parts   []manager.Runnable
	up      context.Context // ends with the operator's process
	halt    func()          // ends it
	running sync.WaitGroup

	checks []func() // run every simulated second

	lookedAt time.Time
	seen     []providertest.Leftover // what was there at lookedAt
}

// simulate runs story in a bubble, with an operator that is up.
func simulate(t *testing.T, s setting, story func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		w.start()
		defer func() { w.halt() }()
		story(t, w)
	})
}

// start brings up an operator that knows what is on record and nothing else.
func (w *world) start() {
	w.t.Helper()
	w.store = fleet.NewStore()
	w.prober.store = w.store
	w.must(w.assemble())
	ctx, cancel := context.WithCancel(w.t.Context())
	w.up, w.halt = ctx, func() {
		cancel()
		w.running.Wait()
	}
	for _, p := range w.parts {
		w.running.Go(func() {
			if err := p.Start(ctx); err != nil {
				w.t.Errorf("%T: %v", p, err)
			}
		})
	}
}

// restart ends the operator's process and starts another after some time.
func (w *world) restart(down time.Duration) {
	w.t.Helper()
	w.halt()
	<-time.After(down)
	w.start()
}

func newWorld(t *testing.T, s setting) *world {
	t.Helper()
	if s.latency == 0 {
		s.latency = 100 * time.Millisecond
	}
	if s.backend.BootDelay == 0 {
		s.backend.CreateDelay, s.backend.BootDelay, s.backend.DeleteDelay = 2*time.Second, 20*time.Second, 5*time.Second
	}
	s.backend.Visibility = 20 * time.Second
	backend := providertest.NewBackend(providertest.KindGCP, clock.RealClock{}, s.backend)
	window := provider.Window{Clock: clock.RealClock{}, CallTimeout: callTimeout, Skew: skew}
	direct := backend.Provider(entry, owner, window)
	w := &world{
		t: t, setting: s, server: newServer(), backend: backend, events: &eventCounter{},
		cloud: &cloud{
			name: entry, direct: direct, latency: s.latency, targetOf: s.targetOf,
			inFlight: map[string]int{}, peak: map[string]int{},
		},
	}
	w.link = &link{server: w.server}
	w.prober = &prober{backend: backend, direct: direct}
	return w
}

// assemble wires the operator as cmd/operator does.
func (w *world) assemble() error {
	scheme, clk := newScheme(), clock.RealClock{}
	var caches [3]cache.Cache
	for i, label := range []string{"", v1alpha1.LabelCloudInit, v1alpha1.LabelProxyAuth} {
		var err error
		if caches[i], err = newCache(w.server, scheme, label); err != nil {
			return err
		}
	}
	proxies, cloudInit, auth := caches[0], caches[1], caches[2]
	if err := proxy.AddIndices(w.t.Context(), proxies); err != nil {
		return err
	}
	triggers := proxy.NewTriggers()
	w.releaser = proxy.NewReleaser(proxy.ReleaserOptions{
		Store: w.store, Clock: clk, Wake: triggers.Wake, Random: (&random{r: rand.New(rand.NewPCG(seed(), 3))}).float64,
	})
	w.providers = &entries{}
	if !w.setting.absent {
		w.configure()
	}
	providers := w.providers
	feed := fleet.NewFeed(w.store, proxies, auth, proxy.IndexAuthSecret)
	var err error
	w.ledger, err = lease.New(lease.Options{Fleet: w.store, Clock: clk})
	if err != nil {
		return err
	}
	judgeURL := ""
	if w.setting.judge {
		judgeURL = v1alpha1.DefaultProbeURL
	}
	engine, err := health.New(health.Options{
		Store: w.store, Prober: w.prober, Clock: clk, Logger: logr.Discard(), OnTransition: triggers.Wake,
		JudgeURL: judgeURL, Fetch: w.prober.fetch, Rand: rand.New(rand.NewPCG(seed(), 1)),
	})
	if err != nil {
		return err
	}
	w.observer = observe.New(observe.Options{
		Providers: providers, Store: w.store, Clock: clk, Interval: driftPoll, CallTimeout: callTimeout, Wake: triggers.Wake,
	})
	collector, err := gc.New(gc.Options{Providers: providers, Live: live{w.link}, Clock: clk, Owner: owner, CallTimeout: callTimeout})
	if err != nil {
		return err
	}
	share, err := proxy.ParseShare(maxReplacing)
	if err != nil {
		return err
	}
	c := &operatorClient{cached: proxies, link: w.link}
	r := &proxy.Reconciler{
		Client: c, Live: live{w.link}, CloudInit: cloudInit, Auth: auth, Providers: providers, Health: engine,
		Observations: w.observer, Fleet: w.store, Leases: w.ledger, MaxReplacing: share, Events: w.events, Clock: clk,
		CallTimeout: callTimeout, Random: (&random{r: rand.New(rand.NewPCG(seed(), 2))}).float64,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: driftPoll, QuotaRetry: quotaRetry,
			Provisioning: provisioningTimeout, Drain: 2 * time.Minute,
		},
	}
	m := &stubManager{scheme: scheme, client: c, cache: proxies}
	if err := r.SetupWithManager(m, proxy.Wakers{CloudInit: cloudInit, Auth: auth, Triggers: triggers}, workers); err != nil {
		return err
	}
	w.parts = append(m.running, proxies, cloudInit, auth, feed, w.ledger, collector,
		after{feed.Synced(), engine}, after{feed.Synced(), w.observer},
		after{feed.Synced(), w.releaser})
	return nil
}

// decorated returns the cloud under the decorators that the operator puts around every provider.
func (w *world) decorated() provider.Provider {
	var p provider.Provider = w.cloud
	switch {
	case w.setting.rotates:
		p = updatingCloud{w.cloud}
	case w.setting.targetOf != nil:
		p = zonedCloud{w.cloud}
	}
	metered := instrument.WithMetrics(p, entry, clock.RealClock{}, noMetrics{})
	return instrument.WithGuard(metered, entry, clock.RealClock{}, instrument.OnOpen(func(name, _ string) { w.releaser.Release(name) }))
}

// configure puts the provider's entry into the configuration.
func (w *world) configure() {
	w.providers.set(registry.Handle{Name: entry, Type: entry, Revision: "1", Provider: w.decorated()})
}
