package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
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

const (
	entry          = "cloud"
	definitionName = "proxies." + v1alpha1.Group
)

var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { config = cfg })
}

// relics are specs that an API server may hold from before a rule was tightened, and what the reconciler says of each. What
// Go cannot decode (a duration of "1 week", a caBundle that is not base64) is not among them: one such object keeps every
// informer from syncing, so no version of the rules may ever admit it.
var relics = []struct {
	name, reason string
	spec         map[string]any
}{
	{"provider", v1alpha1.ReasonProviderNotConfigured, map[string]any{"provider": "Bad Name"}},
	{"no provider", v1alpha1.ReasonProviderNotConfigured, map[string]any{}},
	{"port too low", v1alpha1.ReasonPermanentError, map[string]any{"provider": entry, "port": int64(0)}},
	{"port too high", v1alpha1.ReasonPermanentError, map[string]any{"provider": entry, "port": int64(70000)}},
	{"zone", v1alpha1.ReasonPermanentError, map[string]any{"provider": entry, "placement": map[string]any{"zone": "../x"}}},
	{"attribute", v1alpha1.ReasonCreated, map[string]any{"provider": entry, "attributes": map[string]any{"a b": "c d"}}},
	{"cap", v1alpha1.ReasonCreated, map[string]any{"provider": entry, "maxConcurrentLeases": int64(0)}},
	{"endpoint of a Managed one", v1alpha1.ReasonCreated, map[string]any{"provider": entry, "endpoint": map[string]any{"host": "010.0.0.1", "port": int64(0)}}},
	{"cloud-init of both kinds", v1alpha1.ReasonCloudInitError, map[string]any{"provider": entry, "cloudInit": map[string]any{"inline": "x", "secretRef": map[string]any{"name": "Bad_Name"}}}},
	{"credentials", v1alpha1.ReasonAuthError, map[string]any{"provider": entry, "auth": map[string]any{"secretRef": map[string]any{"name": "absent"}}}},
	{"time-out above interval", v1alpha1.ReasonCreated, map[string]any{"provider": entry, "healthCheck": map[string]any{"interval": "5s", "timeout": "10s"}}},
	{"url", v1alpha1.ReasonCreated, map[string]any{"provider": entry, "healthCheck": map[string]any{"url": "http://[::1:9/%zz"}}},
}

// TestReconcilerFinalisesWhatOlderRulesAdmitted stores objects under a definition without rules, brings the rules back and
// lets the reconciler bring each object up, or say what is wrong, and then to its end: its patches of finalizers and status
// have to get through although the API server would refuse the whole object today.
func TestReconcilerFinalisesWhatOlderRulesAdmitted(t *testing.T) {
	kube := newClient(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tightened-"}}
	must(t, kube.Create(t.Context(), ns))
	strict := &apiextensionsv1.CustomResourceDefinition{}
	must(t, kube.Get(t.Context(), client.ObjectKey{Name: definitionName}, strict))
	loose := strict.DeepCopy()
	for i := range loose.Spec.Versions {
		strip(loose.Spec.Versions[i].Schema.OpenAPIV3Schema, "spec")
	}
	t.Cleanup(func() { must(t, define(context.WithoutCancel(t.Context()), kube, strict)) })

	must(t, define(t.Context(), kube, loose))
	await(t, kube, relic(ns.Name, 0), func(err error) bool { return err == nil })
	for i := range relics {
		must(t, kube.Create(t.Context(), relic(ns.Name, i)))
	}
	must(t, define(t.Context(), kube, strict))
	await(t, kube, relic(ns.Name, 0), apierrors.IsInvalid)

	op := newOperator(t, kube)
	for i, r := range relics {
		t.Run(r.name, func(t *testing.T) {
			u := relic(ns.Name, i)
			if err := kube.Create(t.Context(), relic(ns.Name, i), client.DryRunAll); r.name != "credentials" && !apierrors.IsInvalid(err) {
				t.Fatalf("today's rules do not refuse it: %v", err)
			}
			key := client.ObjectKeyFromObject(u)
			p := op.until(t, key, func(p *v1alpha1.Proxy) bool { return reason(p) == r.reason })
			if p == nil {
				t.Fatal("it is gone before anybody deleted it")
			}
			must(t, kube.Delete(t.Context(), p))
			if p := op.until(t, key, func(p *v1alpha1.Proxy) bool { return p == nil }); p != nil {
				t.Errorf("it stays: %+v", p.Status)
			}
		})
	}
	if left := op.backend.Instances(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

func relic(namespace string, i int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(relics[i].spec)}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	u.SetNamespace(namespace)
	u.SetName(fmt.Sprintf("relic-%d", i))
	return u
}

// define puts the versions of crd in place of the installed ones.
func define(ctx context.Context, kube client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := kube.Get(ctx, client.ObjectKey{Name: definitionName}, live); err != nil {
			return err
		}
		live.Spec.Versions = crd.DeepCopy().Spec.Versions
		return kube.Update(ctx, live)
	})
}

// await polls until a creation of obj would be answered as want says.
func await(t *testing.T, kube client.Client, obj *unstructured.Unstructured, want func(error) bool) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		probe := obj.DeepCopy()
		probe.SetName("")
		probe.SetGenerateName("probe-")
		last = kube.Create(ctx, probe, client.DryRunAll)
		return want(last), nil
	})
	if err != nil {
		t.Fatalf("the definition did not take effect: %v, last answer: %v", err, last)
	}
}

// strip removes every rule from the named property of s and keeps its shape.
func strip(s *apiextensionsv1.JSONSchemaProps, property string) {
	p := s.Properties[property]
	p.XValidations, p.Pattern, p.Enum, p.Format, p.Required = nil, "", nil, "", nil
	p.Minimum, p.Maximum, p.MinLength, p.MaxLength = nil, nil, nil, nil
	p.MinProperties, p.MaxProperties, p.MinItems, p.MaxItems = nil, nil, nil, nil
	for name := range p.Properties {
		strip(&p, name)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: p.AdditionalProperties.Schema.Type}}
	}
	s.Properties[property] = p
}

// operator is the reconciler with a backend in memory, on the real API server.
type operator struct {
	kube    client.Client
	clock   *clocktesting.FakeClock
	backend *providertest.Backend
	r       *proxy.Reconciler
}

func newOperator(t *testing.T, kube client.Client) *operator {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	backend := providertest.NewBackend(providertest.KindGCP, clk, providertest.BackendOptions{})
	share, err := proxy.ParseShare("10%")
	must(t, err)
	const callTimeout = 30 * time.Second
	p := backend.Provider(entry, provider.Owner{Installation: "mine", Cluster: "here"}, provider.Window{Clock: clk, CallTimeout: callTimeout})
	return &operator{kube: kube, clock: clk, backend: backend, r: &proxy.Reconciler{
		Client: kube, Live: kube, CloudInit: kube, Auth: kube, Providers: one{registry.Handle{Name: entry, Revision: "1", Provider: p}},
		Health: blind{}, Observations: blind{}, Fleet: blind{}, Leases: blind{}, Events: events.NewFakeRecorder(1000), Clock: clk,
		CallTimeout: callTimeout, MaxReplacing: share,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: time.Minute, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
	}}
}

// until runs passes, one a second, and returns the object once done says so, or as it is after a hundred; nil when gone.
func (o *operator) until(t *testing.T, key types.NamespacedName, done func(*v1alpha1.Proxy) bool) *v1alpha1.Proxy {
	t.Helper()
	var last *v1alpha1.Proxy
	for range 100 {
		_, err := o.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		must(t, err)
		last = &v1alpha1.Proxy{}
		switch err := o.kube.Get(t.Context(), key, last); {
		case apierrors.IsNotFound(err):
			last = nil
		case err != nil:
			t.Fatal(err)
		}
		if done(last) || last == nil {
			return last
		}
		o.clock.Step(time.Second)
	}
	t.Fatalf("not within 100 passes; status now: %+v", last.Status)
	return last
}

func reason(p *v1alpha1.Proxy) string {
	if p == nil {
		return ""
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned); c != nil {
		return c.Reason
	}
	return ""
}

type one struct{ h registry.Handle }

func (o one) Lookup(name string) (registry.Handle, bool) { return o.h, name == o.h.Name }

// blind stands for the parts of the operator that these objects do not need.
type blind struct{}

func (blind) Verdict(types.NamespacedName) (fleet.Verdict, bool) { return fleet.Verdict{}, false }

func (blind) Replaceable(types.NamespacedName, fleet.Subject) (replaceable, unsure bool) {
	return false, false
}
func (blind) Seen(string, string, string) (provider.Instance, bool) {
	return provider.Instance{}, false
}
func (blind) Strays(string, string, string) []provider.Instance { return nil }
func (blind) Count(string) fleet.Count                          { return fleet.Count{Recorded: 1} }
func (blind) Replacing(types.NamespacedName) bool               { return false }
func (blind) Withdraw(fleet.LeaseKey) int                       { return 0 }
func (blind) Readmit(fleet.LeaseKey)                            {}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
