package eventlimit_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { config = cfg })
}

// bare is what a reconciler asks of the rest of the operator where there is no provider, no verdict and no lease.
type bare struct{}

func (bare) Lookup(string) (registry.Handle, bool)                   { return registry.Handle{}, false }
func (bare) Verdict(types.NamespacedName) (v fleet.Verdict, ok bool) { return v, false }
func (bare) Replaceable(types.NamespacedName, fleet.Subject) (really, unsure bool) {
	return false, false
}
func (bare) Seen(_, _, _ string) (i provider.Instance, ok bool) { return i, false }
func (bare) Strays(_, _, _ string) []provider.Instance          { return nil }
func (bare) Count(string) (c fleet.Count)                       { return c }
func (bare) Replacing(types.NamespacedName) bool                { return false }
func (bare) Withdraw(fleet.LeaseKey) int                        { return 0 }
func (bare) Readmit(fleet.LeaseKey)                             {}

// server is a namespace of the real API server, with the recorder of a real manager.
type server struct {
	t        *testing.T
	c        client.WithWatch
	ns       string
	recorder events.EventRecorder
	requests atomic.Int64 // that write Events
}

// counting counts requests that write Events.
type counting struct {
	next http.RoundTripper
	n    *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/events.k8s.io/") {
		c.n.Add(1)
	}
	return c.next.RoundTrip(r)
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "events-"}}
	must(t, c.Create(t.Context(), ns))
	s := &server{t: t, c: c, ns: ns.Name}
	cfg := rest.CopyConfig(config)
	cfg.Wrap(transport.WrapperFunc(func(next http.RoundTripper) http.RoundTripper { return counting{next, &s.requests} }))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	s.recorder = mgr.GetEventRecorder("egress-proxies-operator")
	return s
}

// reconciler returns the operator's own, which publishes by recorder and writes through hooks.
func (s *server) reconciler(recorder events.EventRecorder, hooks interceptor.Funcs) *proxy.Reconciler {
	s.t.Helper()
	share, err := proxy.ParseShare("10%")
	must(s.t, err)
	return &proxy.Reconciler{
		Client: interceptor.NewClient(s.c, hooks), Live: s.c, CloudInit: s.c, Auth: s.c, Providers: bare{}, Health: bare{}, Observations: bare{}, Fleet: bare{},
		Leases: bare{}, MaxReplacing: share, Events: recorder, Clock: clock.RealClock{}, CallTimeout: 10 * time.Second,
		Intervals: proxy.Intervals{
			ProvisioningPoll: time.Second, DeletionPoll: time.Second, DriftPoll: time.Second, QuotaRetry: time.Second,
			Provisioning: time.Minute, Drain: time.Second,
		},
	}
}

// create makes a Proxy whose provider is not configured.
func (s *server) create(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: "nowhere"},
	}
	err := s.c.Create(ctx, p)
	p.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	return p, err
}

// events are those of the namespace, by the name of what they are about.
func (s *server) events() (out map[string][]eventsv1.Event) {
	s.t.Helper()
	var list eventsv1.EventList
	must(s.t, s.c.List(s.t.Context(), &list, client.InNamespace(s.ns)))
	out = map[string][]eventsv1.Event{}
	for _, e := range list.Items {
		out[e.Regarding.Name] = append(out[e.Regarding.Name], e)
	}
	return out
}

func (s *server) until(what string, done func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		s.t.Fatalf("not within a minute: %s", what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
