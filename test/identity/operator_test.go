package identity

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// settings are what tells one operator from another.
type settings struct {
	name  string
	owner provider.Owner
	at    *cluster
	// namespace confines the operator; collects is --gc-allow-namespaced.
	namespace string
	collects  bool
	// provider makes the operator's provider; nil is one on the world's backend.
	provider func(provider.Owner) provider.Provider
}

// operator is a whole operator, wired as cmd/operator does it.
type operator struct {
	settings
	w    *world
	down bool
	api  client.Client

	entries   entries
	store     *fleet.Store
	r         *proxy.Reconciler
	observer  *observe.Observer
	collector *gc.Collector

	woken map[types.NamespacedName]struct{}
	// collected are the orphans deleted so far, over all restarts.
	collected []gc.Orphan
}

func (w *world) operator(s settings) *operator {
	w.t.Helper()
	o := &operator{settings: s, w: w}
	if o.provider == nil {
		o.provider = func(owner provider.Owner) provider.Provider {
			return w.backend.Provider(entry, owner, provider.Window{Clock: w.clock, CallTimeout: callTimeout, Visibility: visibility, Skew: skew})
		}
	}
	o.start()
	w.operators = append(w.operators, o)
	return o
}

// start begins anew, with nothing but what is on record.
func (o *operator) start() {
	o.w.t.Helper()
	o.down = false
	o.api = o.at.api
	if o.namespace != "" {
		o.api = confined(o.w.t, o.at.api, o.namespace)
	}
	p := instrument.WithMetrics(o.provider(o.owner), entry, o.w.clock, unmeasured{})
	o.entries = entries{registry.Handle{Name: entry, Revision: "1", Provider: p}}
	o.store = fleet.NewStore()
	o.woken = map[types.NamespacedName]struct{}{}
	o.observer = observe.New(observe.Options{
		Providers: once{o}, Store: o.store, Clock: o.w.clock, Interval: time.Minute, CallTimeout: callTimeout,
		Wake: func(key types.NamespacedName) { o.woken[key] = struct{}{} },
	})
	share, err := proxy.ParseShare("100%")
	must(o.w.t, err)
	o.r = &proxy.Reconciler{
		Client: o.api, Live: o.api, CloudInit: o.api, Auth: o.api, Providers: o.entries, Health: answering{o}, Observations: o.observer,
		Fleet: o.store, Leases: unleased{}, Events: silent{}, Clock: o.w.clock, CallTimeout: callTimeout, MaxReplacing: share,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: time.Minute, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
		Random: func() float64 { return 0.5 },
	}
	o.collector, err = gc.New(gc.Options{
		Providers: o.entries, Live: o.api, Clock: o.w.clock, Owner: o.owner, Interval: time.Minute, MinAge: minAge, CallTimeout: callTimeout,
		Namespace: o.namespace, AllowNamespaced: o.collects,
	})
	must(o.w.t, err)
	o.feed()
	o.seed()
}

// restartAs begins anew under another installation.
func (o *operator) restartAs(owner provider.Owner) {
	o.w.t.Helper()
	o.owner = owner
	o.start()
}

// round is everything an operator does, once. Probes go first: what a status says is believed before any pass has looked
// at it, as it may happen between a write and the pass that it causes.
func (o *operator) round() {
	o.w.t.Helper()
	if o.down {
		return
	}
	o.feed()
	o.probe()
	for _, p := range o.proxies() {
		o.pass(client.ObjectKeyFromObject(&p))
	}
	o.feed()
	o.observe()
	for key := range o.woken {
		o.pass(key)
	}
	clear(o.woken)
	o.feed()
	o.sweep()
}

func (o *operator) pass(key types.NamespacedName) {
	o.w.t.Helper()
	if _, err := o.r.Reconcile(o.w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		o.w.t.Errorf("%s: pass over %s: %v", o.name, key, err)
	}
}

// observe lets the observer list once. Its loop ends by itself, for the list ends its context.
func (o *operator) observe() {
	o.w.t.Helper()
	ctx, cancel := context.WithCancel(o.w.t.Context())
	defer cancel()
	must(o.w.t, o.observer.Start(context.WithValue(ctx, stopKey{}, cancel)))
}

// sweep lets the collector sweep once. A breaker that holds would make every survival worthless.
func (o *operator) sweep() {
	o.w.t.Helper()
	r := o.collector.Sweep(o.w.t.Context())
	if restricted := o.namespace != "" && !o.collects; restricted != (r.Skipped == gc.SkipRestricted) || !restricted && r.Skipped != "" {
		o.w.t.Errorf("%s: the sweep was skipped: %q", o.name, r.Skipped)
	}
	of := r.Of(entry)
	if of.Err != nil || len(of.Held)+len(of.Failed) > 0 {
		o.w.t.Errorf("%s: the sweep did not get through: %+v", o.name, of)
	}
	o.collected = append(o.collected, of.Deleted...)
}

// feed brings the store up to what the API server has.
func (o *operator) feed() {
	present := map[types.NamespacedName]struct{}{}
	for _, p := range o.proxies() {
		present[client.ObjectKeyFromObject(&p)] = struct{}{}
		o.store.Apply(fleet.FromObject(&p, nil))
	}
	for _, p := range o.store.Select("", nil) {
		if _, ok := present[p.Key]; !ok {
			o.store.Remove(p.Key, p.UID)
		}
	}
}

// seed takes over the verdicts on record, as the health engine does at its start.
func (o *operator) seed() {
	for _, p := range o.store.Select("", nil) {
		o.store.SetVerdict(p.Key, p.Reported)
	}
}

// probe finds everything healthy that has an address: whatever is withheld, it is not for want of an answer.
func (o *operator) probe() {
	for _, p := range o.store.Select("", nil) {
		if p.Probeable() && p.Verdict.Health != fleet.Healthy {
			o.store.SetVerdict(p.Key, fleet.Verdict{
				Subject: p.Subject(), Health: fleet.Healthy, Reason: v1alpha1.ReasonProbeSucceeded, At: o.w.clock.Now(),
			})
		}
	}
}

// proxies returns the Proxies that the operator is responsible for.
func (o *operator) proxies() []v1alpha1.Proxy {
	o.w.t.Helper()
	var list v1alpha1.ProxyList
	must(o.w.t, o.api.List(o.w.t.Context(), &list, client.InNamespace(o.namespace)))
	return list.Items
}

// offered returns what clients would be given.
func (o *operator) offered() (out []*fleet.Proxy) {
	for _, p := range o.store.List("", nil) {
		if p.Withheld() == fleet.WithheldNot {
			out = append(out, p)
		}
	}
	return out
}

// serves reports whether every one of the Proxies is Ready and offered.
func (o *operator) serves(keys ...types.NamespacedName) bool {
	for _, key := range keys {
		p, s := o.at.get(key), o.store.Get(key)
		if p == nil || p.Status.Phase != v1alpha1.PhaseReady || s == nil || s.Withheld() != fleet.WithheldNot {
			return false
		}
	}
	return true
}
