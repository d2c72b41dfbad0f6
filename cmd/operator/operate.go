package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/eventlimit"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/leaderlabel"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/tokenfile"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/export"
	"github.com/egress-proxies/egress-proxies-operator/internal/version"
)

// stopTimeout bounds an orderly stop: passes in flight, probes and requests end within it.
const stopTimeout = 25 * time.Second

// factories are the provider types that this binary knows.
func (o *options) factories() map[string]registry.Factory {
	cloud := gcp.Settings{LogPayloads: o.gcpPayloads}
	return map[string]registry.Factory{gcp.Type: cloud.New, kubernetes.Type: kubernetes.New, kvm.Type: kvm.New, local.Type: local.New}
}

// operate wires everything together and runs until ctx ends.
func operate(ctx context.Context, o *options, spans *export.Counts) error {
	// The configuration is read before anything is dialled: what is wrong in it should be the first thing said.
	file, err := readProviders(o.providersConfig, registry.Types(o.factories()))
	if err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	cfg.Wrap(tracing.Transport) // spans below those of passes and the like; watches and elections have none
	lead, err := newFence(cfg, o)
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	mgr, err := newManager(cfg, o, lead)
	if err != nil {
		return err
	}
	who, err := owner(ctx, mgr.GetAPIReader(), o)
	if err != nil {
		return err
	}
	a := &app{o: o, mgr: mgr, fence: lead, owner: who, clock: clock.RealClock{}, store: fleet.NewStore(), triggers: proxy.NewTriggers(), certificates: map[string]func() time.Time{}, spans: spans}
	if err := a.assemble(ctx, file); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("starting", "version", version.Text(), "installation", who.Installation, "cluster", who.Cluster, "providers", a.providers.Names())
	return errors.Join(mgr.Start(ctx), a.providers.Close())
}

func newManager(cfg *rest.Config, o *options, lead *fence) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	opts := ctrl.Options{
		Scheme: scheme,
		// Metrics and probes have servers of our own, whose bounds strangers cannot wear out.
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		PprofBindAddress:              o.pprofAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(o.leaseDuration),
		RenewDeadline:                 ptr.To(o.leaseDuration * 2 / 3),
		RetryPeriod:                   ptr.To(o.leaseDuration / 6),
		GracefulShutdownTimeout:       ptr.To(stopTimeout),
		// The manager's client never caches Secrets: those with the operator's labels have caches of their own.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	}
	opts.Cache.DefaultTransform = fleet.Compact
	if o.leaderElect {
		opts.LeaderElectionResourceLockInterface = lead
	}
	if o.namespace != "" {
		opts.Cache.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.NewManager(cfg, opts)
}

// app holds what the parts share.
type app struct {
	o         *options
	mgr       ctrl.Manager
	fence     *fence
	owner     provider.Owner
	clock     clock.RealClock
	store     *fleet.Store
	triggers  *proxy.Triggers
	providers *registry.Registry
	events    *eventlimit.Recorder // of all parts: they share its limits
	// certificates tells when each one that is followed ends, by what it is for.
	certificates map[string]func() time.Time
	spans        *export.Counts
}

func (a *app) assemble(ctx context.Context, file providersFile) error {
	o := a.o
	ledger, err := lease.New(lease.Options{
		Fleet: a.store, Clock: a.clock, CooldownWindow: o.cooldownWindow, MaxLifetime: o.maxLeaseLife, MayGrant: a.leading,
		StartupHold: o.startupHold,
		OnCooldown:  a.rests,
		// Each holds a connection, and those who do not wait need some, too.
		MaxWaiting: max(1, o.maxConnections/2),
	})
	if err != nil {
		return err
	}
	m, err := metrics.New(ctrlmetrics.Registry, a.store, ledger.Stats)
	if err != nil {
		return err
	}
	a.events = eventlimit.New(a.mgr.GetEventRecorder("egress-proxies-operator"), eventlimit.Options{Clock: a.clock, Metrics: m})
	releaser := proxy.NewReleaser(proxy.ReleaserOptions{Store: a.store, Clock: a.clock, Wake: a.triggers.Wake})
	var refresh func()
	if err := a.build(ctx, file, m, releaser, &refresh); err != nil {
		return err
	}
	cloudInit, err := a.secrets(v1alpha1.LabelCloudInit)
	if err != nil {
		return err
	}
	auth, err := a.secrets(v1alpha1.LabelProxyAuth)
	if err != nil {
		return err
	}
	feed := fleet.NewFeed(a.store, a.mgr.GetCache(), auth, proxy.IndexAuthSecret)
	external, err := o.externalNetworks()
	if err != nil {
		return err
	}
	var prober health.Prober = health.NewProber(health.ProberOptions{DialPolicy: health.RefuseInternal(external)})
	if o.traceProbes {
		prober = health.Traced(prober)
	}
	engine, err := health.New(health.Options{
		Store: a.store, Prober: prober, Clock: a.clock,
		Workers: o.healthWorkers, Tick: o.healthTick, MinReportInterval: o.minReportInterval, Metrics: m,
		Logger: a.mgr.GetLogger().WithName("health"), OnTransition: a.triggers.Wake, JudgeURL: o.judgeURL,
	})
	if err != nil {
		return err
	}
	principals, err := a.principals()
	if err != nil {
		return err
	}
	https, err := a.discoveryTLS()
	if err != nil {
		return err
	}
	api, err := discovery.New(discovery.Options{
		TLS:         https,
		BindAddress: o.discoveryAddress, Token: o.discoveryToken, Tokens: principals.tokens(), RequireAuth: o.requireAuth, Fleet: a.store, Ledger: ledger,
		Leading: a.leading, Metrics: m, Log: a.mgr.GetLogger().WithName("discovery"), Clock: a.clock,
		TTL: o.defaultLeaseTTL, MaxTTL: o.maxLeaseTTL, Prefer: lease.Prefer(o.leasePrefer), MaxConnections: o.maxConnections,
	})
	if err != nil {
		return err
	}
	observer := observe.New(observe.Options{
		Providers: a.providers, Store: a.store, Clock: a.clock, Interval: o.driftPoll, CallTimeout: o.callTimeout, Wake: a.triggers.Wake,
		Metrics: m,
	})
	reloading, err := a.reloader(file, m, observer, releaser)
	if err != nil {
		return err
	}
	monitor, err := a.monitor(reloading.Problem)
	if err != nil {
		return err
	}
	reloading.refresh, refresh = monitor.Refresh, monitor.Refresh
	if err := a.controller(ctx, engine, observer, ledger, cloudInit, auth, m); err != nil {
		return err
	}
	collector, err := gc.New(gc.Options{
		Providers: a.providers, Live: a.mgr.GetAPIReader(), Clock: a.clock, Owner: a.owner,
		Interval: o.gcInterval, MinAge: o.gcMinAge, CallTimeout: o.callTimeout, DryRun: o.gcDryRun,
		Namespace: o.namespace, AllowNamespaced: o.gcAllowNamespaced, Approve: o.gcApprove,
		Metrics: m, Events: a.events,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(a.serveMetrics(ctx), a.serveProbes(ctx)); err != nil {
		return err
	}
	if err := a.gauges(engine, api, principals); err != nil {
		return err
	}
	// The engine takes over the verdicts on record of the Proxies it finds at its start, so they have to be there first.
	probing := &after{ready: feed.Synced(), then: engine}
	observing := &after{ready: feed.Synced(), then: observer}
	releasing := &after{ready: feed.Synced(), then: releaser}
	var errs []error
	for _, r := range []manager.Runnable{early{cloudInit}, early{auth}, feed, ledger, api, probing, observing, releasing, collector, monitor, reloading} {
		errs = append(errs, a.mgr.Add(r))
	}
	if principals.file != nil {
		errs = append(errs, a.mgr.Add(principals.file))
	}
	if o.podName != "" {
		errs = append(errs, a.mgr.Add(&leaderlabel.Labeler{
			Reader: a.mgr.GetAPIReader(), Writer: a.mgr.GetClient(), Namespace: podNamespace(o, namespaceFile), Pod: o.podName, ID: o.leaderID, Clock: a.clock,
			Leading: a.leading,
		}))
	}
	return errors.Join(errs...)
}

// rests has it in the log which proxy is kept from whom, and by whose word: nothing else shows it, for in metrics it would be a
// series for each proxy and target.
func (a *app) rests(c lease.Cooldown) {
	a.mgr.GetLogger().WithName("lease").V(1).Info("a proxy rests", "namespace", c.Proxy.Namespace, "proxy", c.Proxy.Name,
		"principal", c.Principal, "result", string(c.Result), "target", c.Target, "until", c.Until)
}

// principals are those of the token file, if there is one.
type principals struct{ file *tokenfile.Tokens }

func (a *app) principals() (p principals, err error) {
	if a.o.tokenFile == "" {
		return p, nil
	}
	if p.file, err = tokenfile.Load(a.o.tokenFile, a.clock, a.mgr.GetLogger().WithName("tokens")); err != nil {
		return p, fmt.Errorf("--token-file: %w", err)
	}
	return p, nil
}

func (p principals) tokens() discovery.Tokens {
	if p.file == nil {
		return nil // not a nil *tokenfile.Tokens, which would be there
	}
	return p.file
}

func (a *app) controller(ctx context.Context, engine proxy.Health, seen proxy.Observations, leases proxy.Leases, cloudInit, auth cache.Cache, m proxy.Recorder) error {
	share, err := proxy.ParseShare(a.o.maxReplacing)
	if err != nil {
		return fmt.Errorf("--max-replacing: %w", err)
	}
	if err := proxy.AddIndices(ctx, a.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &proxy.Reconciler{
		Client: a.mgr.GetClient(), Live: a.mgr.GetAPIReader(), CloudInit: cloudInit, Auth: auth,
		Providers: a.providers, Health: engine, Observations: seen, Fleet: a.store, Leases: leases, MaxReplacing: share,
		Events: a.events, Metrics: m, Clock: a.clock, CallTimeout: a.o.callTimeout,
		Intervals: proxy.Intervals{
			ProvisioningPoll: a.o.provisioningPoll, DeletionPoll: a.o.deletionPoll, DriftPoll: a.o.driftPoll, QuotaRetry: a.o.quotaRetry,
			Provisioning: a.o.provisioningTimeout, Drain: a.o.drainTimeout,
		},
	}
	return r.SetupWithManager(a.mgr, proxy.Wakers{CloudInit: cloudInit, Auth: auth, Triggers: a.triggers}, a.o.workers)
}

// secrets returns a cache of the Secrets that carry the label, and of nothing else.
func (a *app) secrets(label string) (cache.Cache, error) {
	opts := cache.Options{
		HTTPClient: a.mgr.GetHTTPClient(), Scheme: a.mgr.GetScheme(), Mapper: a.mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{label: v1alpha1.LabelValueTrue})},
		},
	}
	if a.o.namespace != "" {
		opts.DefaultNamespaces = map[string]cache.Config{a.o.namespace: {}}
	}
	return cache.New(a.mgr.GetConfig(), opts)
}

// early is a cache that the manager starts before everything else, on every replica.
type early struct{ cache.Cache }

// GetCache is how the manager tells a cache from other parts.
func (e early) GetCache() cache.Cache { return e.Cache }

// leading reports whether this process is the leader and cannot have been followed by another yet. It does not block.
func (a *app) leading() bool {
	select {
	case <-a.mgr.Elected():
		return !a.o.leaderElect || a.fence.holds()
	default:
		return false
	}
}

// leaderRunnable is a part that runs on the leader alone.
type leaderRunnable interface {
	manager.Runnable
	manager.LeaderElectionRunnable
}

// after starts a part once something is ready.
type after struct {
	ready <-chan struct{}
	then  leaderRunnable
}

// Start waits and then runs the part.
func (a *after) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.ready:
	}
	return a.then.Start(ctx)
}

// NeedLeaderElection is the part's own answer.
func (a *after) NeedLeaderElection() bool { return a.then.NeedLeaderElection() }
