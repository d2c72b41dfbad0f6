package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// manage runs the rig's reconciler under a real manager, with caches, queue and the real clock.
func manage(t *testing.T, x *rig) *proxy.Triggers {
	t.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: x.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{x.ns: {}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(t, err)
	secrets := func(label string) cache.Cache {
		c, err := cache.New(config, cache.Options{
			Scheme: x.client.Scheme(), DefaultNamespaces: map[string]cache.Config{x.ns: {}},
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.SelectorFromSet(labels.Set{label: "true"})}},
		})
		must(t, err)
		must(t, mgr.Add(c))
		return c
	}
	cloudInit, auth, triggers := secrets(v1alpha1.LabelCloudInit), secrets(v1alpha1.LabelProxyAuth), proxy.NewTriggers()
	must(t, proxy.AddIndices(t.Context(), mgr.GetFieldIndexer()))
	x.r.Client, x.r.Live, x.r.CloudInit, x.r.Auth, x.r.Clock = mgr.GetClient(), mgr.GetAPIReader(), cloudInit, auth, clock.RealClock{}
	must(t, x.r.SetupWithManager(mgr, proxy.Wakers{CloudInit: cloudInit, Auth: auth, Triggers: triggers}, 4))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return triggers
}

// realTime gives the rig a backend on the real clock.
func realTime(t *testing.T) *rig {
	t.Helper()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.backend = providertest.NewBackend(providertest.KindGCP, clock.RealClock{}, providertest.BackendOptions{})
	x.entries[x.entry] = registry.Handle{
		Name: x.entry, Revision: "1",
		Provider: x.backend.Provider(x.entry, provider.Owner{Installation: "mine", Cluster: "here"},
			provider.Window{Clock: clock.RealClock{}, CallTimeout: callTimeout, Skew: skew}),
	}
	return x
}

func (x *rig) eventually(key types.NamespacedName, what string, done func(*v1alpha1.Proxy) bool) *v1alpha1.Proxy {
	x.t.Helper()
	var p *v1alpha1.Proxy
	err := wait.PollUntilContextTimeout(x.t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		p = x.get(key)
		return done(p), nil
	})
	if err != nil {
		x.t.Fatalf("not within 30 s: %s; %+v", what, p)
	}
	return p
}

func (x *rig) secret(name, label string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
	x.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name}, Type: kind, StringData: data,
	}
	if label != "" {
		s.Labels = map[string]string{label: "true"}
	}
	must(x.t, x.client.Create(x.t.Context(), s))
	return s
}

const sentinel = "SENTINEL-s3cret"

//nolint:paralleltest // one manager at a time keeps the log readable
func TestSecretsAreWatchedAndNeverShown(t *testing.T) {
	x := realTime(t)
	manage(t, x)
	key := x.managed("a", func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "userdata"}}
		p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}}
	})
	is := func(want string) func(*v1alpha1.Proxy) bool {
		return func(p *v1alpha1.Proxy) bool { return reason(p) == want }
	}
	x.eventually(key, "AuthError while the credentials are missing", is(v1alpha1.ReasonAuthError))

	creds := x.secret("creds", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": "u:" + sentinel, "password": sentinel})
	x.eventually(key, "AuthError naming the key", func(p *v1alpha1.Proxy) bool {
		return is(v1alpha1.ReasonAuthError)(p) && strings.Contains(provisioned(p).Message, `"username"`)
	})
	must(t, x.client.Delete(t.Context(), creds))
	x.secret("creds", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": "crawler", "password": sentinel + "\n"})
	x.eventually(key, "AuthError about a trailing newline", func(p *v1alpha1.Proxy) bool {
		return is(v1alpha1.ReasonAuthError)(p) && strings.Contains(provisioned(p).Message, `"password"`)
	})
	var s corev1.Secret
	must(t, x.client.Get(t.Context(), types.NamespacedName{Namespace: x.ns, Name: "creds"}, &s))
	s.StringData = map[string]string{"password": sentinel}
	must(t, x.client.Update(t.Context(), &s))
	x.eventually(key, "CloudInitError once the credentials are good", is(v1alpha1.ReasonCloudInitError))

	unlabelled := x.secret("userdata", "", corev1.SecretTypeOpaque, map[string]string{"user-data": "#cloud-config " + sentinel})
	x.pauseFor(key, is(v1alpha1.ReasonCloudInitError))
	unlabelled.Labels = map[string]string{v1alpha1.LabelCloudInit: "true"}
	must(t, x.client.Update(t.Context(), unlabelled))
	p := x.eventually(key, "created once the label is there", is(v1alpha1.ReasonCreated))

	for what, text := range map[string]string{
		"object": fmt.Sprintf("%+v", p), "events": strings.Join(x.events.all(), "\n"), "instances": fmt.Sprintf("%+v", x.backend.Instances()),
	} {
		if strings.Contains(text, sentinel) {
			t.Errorf("the %s show a secret", what)
		}
	}
}

// pauseFor checks that a condition holds over several passes that are asked for.
func (x *rig) pauseFor(key types.NamespacedName, holds func(*v1alpha1.Proxy) bool) {
	x.t.Helper()
	for range 5 {
		x.pass(key)
		if p := x.get(key); !holds(p) {
			x.t.Fatalf("%+v", provisioned(p))
		}
	}
}

//nolint:paralleltest // one manager at a time keeps the log readable
func TestATriggerWakesAProxyAndALifeUnderTheManagerEndsClean(t *testing.T) {
	x := realTime(t)
	triggers := manage(t, x)
	key := x.managed("a")
	p := x.eventually(key, "created", func(p *v1alpha1.Proxy) bool { return reason(p) == v1alpha1.ReasonCreated })
	x.backend.Confuse(p.Status.ProviderID) // nothing in the cluster changes by that
	triggers.Wake(key)
	x.eventually(key, "looked at after the trigger", func(p *v1alpha1.Proxy) bool {
		return strings.Contains(provisioned(p).Message, "left alone")
	})
	x.backend.Start(p.Status.ProviderID)
	x.delete(key)
	x.eventually(key, "gone", func(p *v1alpha1.Proxy) bool { return p == nil })
	if x.instances() != 0 {
		t.Fatalf("left: %+v", x.backend.Instances())
	}
}
