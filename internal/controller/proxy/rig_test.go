package proxy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { config = cfg })
}

const (
	callTimeout = 30 * time.Second
	visibility  = 20 * time.Second
	skew        = 5 * time.Second
	// window is how long after a request absence is no proof yet.
	window = callTimeout + visibility + skew
)

// rig is a reconciler on the real API server with a backend in memory. Time passes only by step.
type rig struct {
	t       *testing.T
	ns      string
	entry   string // the provider entry's name; one for each rig, for the tests share an API server
	client  client.Client
	clock   *clocktesting.FakeClock
	backend *providertest.Backend
	r       *proxy.Reconciler
	health  *verdicts
	events  *recorder

	entries map[string]registry.Handle
	seen    map[string]provider.Instance
	strays  map[string][]provider.Instance
	leases  *leases
	share   string
}

func newRig(t *testing.T, kind providertest.Kind, opts providertest.BackendOptions) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rig-"}}
	must(t, c.Create(t.Context(), ns))

	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	opts.Visibility = visibility
	x := &rig{
		t: t, ns: ns.Name, entry: "cloud-" + ns.Name, client: c, clock: clk, backend: providertest.NewBackend(kind, clk, opts),
		health: &verdicts{}, events: &recorder{}, seen: map[string]provider.Instance{}, leases: &leases{}, share: "10%",
	}
	x.configure(registry.Handle{Revision: "1"})
	x.restart()
	return x
}

// configure sets the provider's entry; name and backend are the rig's own.
func (x *rig) configure(h registry.Handle) {
	h.Name = x.entry
	h.Provider = x.backend.Provider(x.entry, provider.Owner{Installation: "mine", Cluster: "here"},
		provider.Window{Clock: x.clock, CallTimeout: callTimeout, Visibility: visibility, Skew: skew})
	x.entries = map[string]registry.Handle{x.entry: h}
}

// restart replaces the reconciler: whatever it kept in memory is gone.
func (x *rig) restart() {
	share, err := proxy.ParseShare(x.share)
	must(x.t, err)
	x.r = &proxy.Reconciler{
		Client: x.client, Live: x.client, CloudInit: labelled{x.client, v1alpha1.LabelCloudInit}, Auth: labelled{x.client, v1alpha1.LabelProxyAuth},
		Providers: x, Health: x.health, Observations: x, Fleet: x, Leases: x.leases, Events: x.events, Clock: x.clock, CallTimeout: callTimeout,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: time.Minute, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
		MaxReplacing: share,
	}
}

func (x *rig) Lookup(name string) (registry.Handle, bool) { h, ok := x.entries[name]; return h, ok }

func (x *rig) Seen(_, uid, _ string) (provider.Instance, bool) { i, ok := x.seen[uid]; return i, ok }

func (x *rig) Strays(_, uid, _ string) []provider.Instance { return x.strays[uid] }

// Count is what the fleet shows of the rig's own Proxies, read live.
func (x *rig) Count(string) (c fleet.Count) {
	for _, p := range x.all() {
		if p.Status.Instance != nil {
			c.Recorded++
		}
		if p.Status.ReplacingSince != nil {
			c.Replacing++
		}
	}
	return c
}

func (x *rig) Replacing(key types.NamespacedName) bool {
	p := x.get(key)
	return p != nil && p.Status.ReplacingSince != nil
}

func (x *rig) all() []v1alpha1.Proxy {
	x.t.Helper()
	var list v1alpha1.ProxyList
	must(x.t, x.client.List(x.t.Context(), &list, client.InNamespace(x.ns)))
	return list.Items
}

// leases stands for the ledger: one number of live leases for every key.
type leases struct {
	mu                    sync.Mutex
	live                  int
	withdrawn, readmitted []fleet.LeaseKey
}

func (l *leases) Withdraw(key fleet.LeaseKey) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdrawn = append(l.withdrawn, key)
	return l.live
}

func (l *leases) Readmit(key fleet.LeaseKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readmitted = append(l.readmitted, key)
}

func (l *leases) hold(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = n
}

// managed returns a Proxy that asks for an instance; mutate may change it before it is stored.
func (x *rig) managed(name string, mutate ...func(*v1alpha1.Proxy)) types.NamespacedName {
	x.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: x.entry},
	}
	for _, m := range mutate {
		m(p)
	}
	must(x.t, x.client.Create(x.t.Context(), p))
	return client.ObjectKeyFromObject(p)
}

// pass runs one pass.
func (x *rig) pass(key types.NamespacedName) ctrl.Result {
	x.t.Helper()
	res, err := x.r.Reconcile(x.t.Context(), ctrl.Request{NamespacedName: key})
	must(x.t, err)
	return res
}

// step lets time pass.
func (x *rig) step(d time.Duration) { x.clock.Step(d) }

// until runs passes, one a second, until done says so.
func (x *rig) until(key types.NamespacedName, what string, done func(*v1alpha1.Proxy) bool) *v1alpha1.Proxy {
	x.t.Helper()
	for range 900 {
		x.pass(key)
		if p := x.get(key); done(p) {
			return p
		}
		x.step(time.Second)
	}
	x.t.Fatalf("not within 900 passes: %s; status now: %+v", what, x.get(key).Status)
	return nil
}

func (x *rig) untilRunning(key types.NamespacedName) *v1alpha1.Proxy {
	x.t.Helper()
	return x.until(key, "provisioned", func(p *v1alpha1.Proxy) bool { return p != nil && reason(p) == v1alpha1.ReasonCreated })
}

// get returns the stored object, nil when it is gone.
func (x *rig) get(key types.NamespacedName) *v1alpha1.Proxy {
	x.t.Helper()
	p := &v1alpha1.Proxy{}
	err := x.client.Get(x.t.Context(), key, p)
	if client.IgnoreNotFound(err) != nil {
		x.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return p
}

// edit changes the stored object.
func (x *rig) edit(key types.NamespacedName, change func(*v1alpha1.Proxy)) {
	x.t.Helper()
	p := x.get(key)
	change(p)
	must(x.t, x.client.Update(x.t.Context(), p))
}

func (x *rig) delete(key types.NamespacedName) {
	x.t.Helper()
	must(x.t, x.client.Delete(x.t.Context(), x.get(key)))
}

// instances returns how many instances the backend has, parts included.
func (x *rig) instances() int { return len(x.backend.Instances()) }

func provisioned(p *v1alpha1.Proxy) metav1.Condition {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func reason(p *v1alpha1.Proxy) string { return provisioned(p).Reason }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// labelled is a reader that sees only Secrets with its label, as the operator's caches do.
type labelled struct {
	client.Client
	label string
}

func (l labelled) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	var list corev1.SecretList
	if err := l.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{l.label: v1alpha1.LabelValueTrue}); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Name == key.Name {
			return l.Client.Get(ctx, key, obj, opts...)
		}
	}
	return l.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: "absent-" + key.Name}, obj, opts...)
}

// verdicts stands for the health engine.
type verdicts struct {
	mu sync.Mutex
	m  map[types.NamespacedName]fleet.Verdict

	suspect bool
}

func (v *verdicts) Verdict(key types.NamespacedName) (fleet.Verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	out, ok := v.m[key]
	return out, ok
}

// say makes the engine report h about exactly what p's status describes.
func (v *verdicts) say(p *v1alpha1.Proxy, h fleet.Health, reason string, latency time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.m == nil {
		v.m = map[types.NamespacedName]fleet.Verdict{}
	}
	v.m[client.ObjectKeyFromObject(p)] = fleet.Verdict{
		Subject: fleet.FromObject(p, nil).Subject(), Health: h, Reason: reason, Latency: latency, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// Replaceable says what suspect says of an Unhealthy Proxy.
func (v *verdicts) Replaceable(key types.NamespacedName, subject fleet.Subject) (replaceable, unsure bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if got := v.m[key]; got.Health != fleet.Unhealthy || got.Subject != subject {
		return false, false
	}
	return !v.suspect, v.suspect
}

// suspects makes the engine suspect a shared cause of all that is Unhealthy.
func (v *verdicts) suspects(it bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.suspect = it
}

// recorder keeps events as text.
type recorder struct {
	mu   sync.Mutex
	list []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := regarding.(client.Object)
	if !ok || o.GetResourceVersion() != "" {
		r.list = append(r.list, "BROKEN reference with a resourceVersion")
	}
	r.list = append(r.list, fmt.Sprintf("%s %s %s %s", kind, reason, action, fmt.Sprintf(note, args...)))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

// hold makes the engine keep the verdict about p as it is.
func (v *verdicts) hold(p *v1alpha1.Proxy) {
	v.mu.Lock()
	defer v.mu.Unlock()
	held := v.m[client.ObjectKeyFromObject(p)]
	held.Held, held.Reason = true, v1alpha1.ReasonSharedCauseSuspected
	v.m[client.ObjectKeyFromObject(p)] = held
}
