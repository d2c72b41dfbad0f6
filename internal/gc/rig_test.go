package gc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
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
	minAge = 10 * time.Minute
	cloud  = "cloud" // the provider entry that most tests need only one of
	spec   = "v1-0123456789abcdef"
)

func mine() provider.Owner { return provider.Owner{Installation: "mine", Cluster: "here"} }

// rig is a collector on the real API server, with a cloud in memory. Time passes only by its clock.
type rig struct {
	t       *testing.T
	ns      string
	client  client.Client
	live    *reader
	clock   *clocktesting.FakeClock
	backend *providertest.Backend
	entries []registry.Handle
	metrics *recorder
	events  *events
	logs    *logs
	c       *gc.Collector
}

// All makes the rig the collector's providers.
func (x *rig) All() []registry.Handle { return x.entries }

func newRig(t *testing.T, opts providertest.BackendOptions, change ...func(*gc.Options)) *rig {
	t.Helper()
	t.Parallel()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gc-"}}
	must(t, c.Create(t.Context(), ns))
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	x := &rig{
		t: t, ns: ns.Name, client: c, live: &reader{Reader: c}, clock: clk,
		backend: providertest.NewBackend(providertest.KindGCP, clk, opts), metrics: &recorder{orphans: map[string]int{}}, events: &events{}, logs: &logs{},
	}
	x.entry(cloud, x.provider(mine()))
	x.restart(change...)
	return x
}

// restart replaces the collector; what it remembered is gone.
func (x *rig) restart(change ...func(*gc.Options)) {
	x.t.Helper()
	o := gc.Options{
		Providers: x, Live: x.live, Clock: x.clock, Owner: mine(), MinAge: minAge, Metrics: x.metrics, Events: x.events,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := gc.New(o)
	must(x.t, err)
	x.c = c
}

// provider returns a provider on the rig's backend that works for owner.
func (x *rig) provider(owner provider.Owner) *providertest.Stateful {
	return x.backend.Provider(cloud, owner, provider.Window{CallTimeout: time.Minute})
}

// entry adds a provider, or replaces the one of that name.
func (x *rig) entry(name string, p provider.Provider) {
	x.entries = slices.DeleteFunc(x.entries, func(h registry.Handle) bool { return h.Name == name })
	x.entries = append(x.entries, registry.Handle{Name: name, Provider: p})
}

// proxy stores a Managed Proxy.
func (x *rig) proxy(name string, change ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	x.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: cloud},
	}
	for _, f := range change {
		f(p)
	}
	must(x.t, x.client.Create(x.t.Context(), p))
	return p
}

// create makes p's instance as the reconciler does and returns its ID.
func (x *rig) create(p *v1alpha1.Proxy, zone string) string {
	x.t.Helper()
	return x.createAs(mine(), p, zone)
}

func (x *rig) createAs(owner provider.Owner, p *v1alpha1.Proxy, zone string) string {
	x.t.Helper()
	uid := string(p.UID)
	req := provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: p.Namespace, ProxyName: p.Name,
		Placement: provider.Placement{Zone: zone}, Port: 3128, Spec: spec,
	}
	pr := x.provider(owner)
	id, err := pr.Plan(x.t.Context(), req)
	must(x.t, err)
	must(x.t, pr.Create(x.t.Context(), req, provider.Ref{ID: id, UID: uid, Attempt: 1, RequestedAt: x.clock.Now()}))
	return id
}

// lose deletes the object without anybody looking after its instance.
func (x *rig) lose(ps ...*v1alpha1.Proxy) {
	x.t.Helper()
	for _, p := range ps {
		must(x.t, x.client.Delete(x.t.Context(), p))
	}
}

// orphan makes an instance in the first zone whose Proxy existed and is gone, and returns its ID.
func (x *rig) orphan(name string) string {
	x.t.Helper()
	p := x.proxy(name)
	id := x.create(p, "")
	x.lose(p)
	return id
}

// place puts an instance with these marks into the zone by hand, under the name that goes with them.
func (x *rig) place(zone string, m provider.Marks) string {
	id := idIn(zone, m.UID)
	x.backend.Place(id, m.ToMap(), 3128)
	return id
}

// idIn returns the ID of the UID's instance in the zone.
func idIn(zone, uid string) string {
	return "zones/" + zone + "/instances/" + provider.NameFromUID(uid)
}

// uidOf returns the UID of a Proxy that never was, always the same for a name.
func uidOf(name string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String() }

// zones returns the names of n zones.
func zones(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("zone-%03d", i))
	}
	return names
}

// dead returns marks of a Proxy that never was in this API server.
func (x *rig) dead(name string) provider.Marks {
	return provider.Marks{
		UID: uidOf(name), Namespace: x.ns, Name: name, Installation: mine().Installation, Cluster: mine().Cluster, Spec: spec, Attempt: 1,
	}
}

// grow lets every instance become old enough.
func (x *rig) grow() { x.clock.Step(minAge + time.Second) }

// sweepAll sweeps once.
func (x *rig) sweepAll() gc.Report {
	x.t.Helper()
	return x.c.Sweep(ctrl.LoggerInto(x.t.Context(), x.logs.logger()))
}

// sweep sweeps once and returns what became of the provider "cloud".
func (x *rig) sweep() gc.ProviderReport {
	x.t.Helper()
	r := x.sweepAll()
	if r.Skipped != "" {
		x.t.Fatalf("the sweep was skipped: %s", r.Skipped)
	}
	return r.Of(cloud)
}

// twice lets time pass and sweeps as often as an orphan needs to be seen; it returns the last report.
func (x *rig) twice() gc.ProviderReport {
	x.t.Helper()
	x.grow()
	x.sweep()
	x.clock.Step(gc.DefaultInterval)
	return x.sweep()
}

// there fails unless exactly these instances are left, in whatever order.
func (x *rig) there(ids ...string) {
	x.t.Helper()
	var left []string
	for _, l := range x.backend.Instances() {
		left = append(left, l.ID)
	}
	ids = slices.Sorted(slices.Values(ids)) // a copy: it may be a part of the caller's
	if !slices.Equal(left, ids) {
		x.t.Fatalf("left are\n %v, want\n %v\nlog:\n%s", left, ids, x.logs)
	}
}

func idsOf(orphans []gc.Orphan) (ids []string) {
	for _, o := range orphans {
		ids = append(ids, o.ID)
	}
	return ids
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reader is the API server with a tap: a test may answer in its stead.
type reader struct {
	client.Reader
	list func(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
	get  func(ctx context.Context, key client.ObjectKey, obj client.Object) error
}

func (r *reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.list != nil {
		return r.list(ctx, list, opts...)
	}
	return r.Reader.List(ctx, list, opts...)
}

func (r *reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if r.get != nil {
		return r.get(ctx, key, obj)
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// recorder keeps what metrics would show, one line each, and the ends of sweeps.
type recorder struct {
	mu    sync.Mutex
	lines []string
	swept []time.Time
	// orphans of the last sweep, by provider; took is how long it was.
	orphans map[string]int
	took    time.Duration
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) OrphanDeleted(provider string)        { r.note("deleted %s", provider) }
func (r *recorder) CollectionFailed(provider, op string) { r.note("failed %q %s", provider, op) }
func (r *recorder) BreakerHeld(provider string, n int, digest string) {
	r.note("held %s %d %s", provider, n, digest)
}

func (r *recorder) Orphans(provider string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphans[provider] = n
}

func (r *recorder) ProviderGone(provider string) { r.note("gone %s", provider) }

func (r *recorder) Swept(at time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = took
	r.swept = append(r.swept, at)
}

// take returns the lines since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// events keeps Events.
type events struct {
	mu    sync.Mutex
	about []runtime.Object
	lines []string
}

func (e *events) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about = append(e.about, regarding)
	e.lines = append(e.lines, fmt.Sprintf("%s %s %s %s", kind, reason, action, fmt.Sprintf(note, args...)))
}

// logs keeps log lines.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{})
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// matching returns the lines that contain all of the parts.
func (l *logs) matching(parts ...string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			lines = append(lines, line)
		}
	}
	return lines
}
