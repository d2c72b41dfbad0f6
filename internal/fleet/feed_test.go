package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const authIndex = "spec.auth.secretRef.name"

// feeding is a feed on the real API server, in a namespace of its own.
type feeding struct {
	t      *testing.T
	ns     string
	client client.Client
	http   *http.Client
	store  *fleet.Store
	feed   *fleet.Feed
	stop   func()
}

func newFeeding(t *testing.T) *feeding {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	own := rest.CopyConfig(config)
	own.Proxy = http.ProxyFromEnvironment // makes the transport the test's own, not the shared one
	httpClient, err := rest.HTTPClientFor(own)
	must(t, err)
	c, err := client.New(own, client.Options{Scheme: scheme, HTTPClient: httpClient})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "feed-"}}
	must(t, c.Create(t.Context(), ns))
	return &feeding{t: t, ns: ns.Name, client: c, http: httpClient, store: fleet.NewStore(), stop: func() {}}
}

// start runs caches and feed as the operator does. stop ends them and fails the test when a goroutine stays.
func (x *feeding) start() {
	x.t.Helper()
	before := goleak.IgnoreCurrent()
	newCache := func(selector map[string]string) cache.Cache {
		opts := cache.Options{HTTPClient: x.http, Scheme: x.client.Scheme(), DefaultNamespaces: map[string]cache.Config{x.ns: {}}}
		if selector != nil {
			opts.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.SelectorFromSet(selector)}}
		}
		c, err := cache.New(config, opts)
		must(x.t, err)
		return c
	}
	proxies, secrets := newCache(nil), newCache(map[string]string{v1alpha1.LabelProxyAuth: "true"})
	must(x.t, proxies.IndexField(x.t.Context(), &v1alpha1.Proxy{}, authIndex, func(o client.Object) []string {
		if auth := o.(*v1alpha1.Proxy).Spec.Auth; auth != nil {
			return []string{auth.SecretRef.Name}
		}
		return nil
	}))
	x.feed = fleet.NewFeed(x.store, proxies, secrets, authIndex)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{proxies.Start, secrets.Start, x.feed.Start} {
		go func() { ended <- run(ctx) }()
	}
	x.stop = func() {
		x.t.Helper()
		x.stop = func() {}
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				x.t.Errorf("ended with %v", err)
			}
		}
		x.http.CloseIdleConnections()
		// controller-runtime leaves this one behind when an informer could not be made before the end.
		lost := goleak.IgnoreTopFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1")
		if err := goleak.Find(before, lost); err != nil {
			x.t.Error(err)
		}
	}
	x.t.Cleanup(func() { x.stop() })
}

func (x *feeding) synced() {
	x.t.Helper()
	select {
	case <-x.feed.Synced():
	case <-time.After(30 * time.Second):
		x.t.Fatal("not synced within 30 s")
	}
}

func (x *feeding) key(n string) types.NamespacedName {
	return types.NamespacedName{Namespace: x.ns, Name: n}
}

// until waits for the store to hold n as done wants it; done gets nil while there is none.
func (x *feeding) until(n, what string, done func(*fleet.Proxy) bool) *fleet.Proxy {
	x.t.Helper()
	var p *fleet.Proxy
	err := wait.PollUntilContextTimeout(x.t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		p = x.store.Get(x.key(n))
		return done(p), nil
	})
	if err != nil {
		x.t.Fatalf("not within 30 s: %s; %+v", what, p)
	}
	return p
}

func (x *feeding) proxy(n, secretName string) *v1alpha1.Proxy {
	x.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: n},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: n + ".test", Port: 3128}},
	}
	if secretName != "" {
		p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secretName}}
	}
	must(x.t, x.client.Create(x.t.Context(), p))
	return p
}

func (x *feeding) secret(n, password string, labelled bool) *corev1.Secret {
	x.t.Helper()
	s := secret("user", password)
	s.ObjectMeta = metav1.ObjectMeta{Namespace: x.ns, Name: n}
	if labelled {
		s.Labels = map[string]string{v1alpha1.LabelProxyAuth: "true"}
	}
	must(x.t, x.client.Create(x.t.Context(), s))
	return s
}

func present(p *fleet.Proxy) bool { return p != nil }
func gone(p *fleet.Proxy) bool    { return p == nil }
func missing(p *fleet.Proxy) bool { return p != nil && p.CredentialsMissing && p.Credentials == nil }
func password(want string) func(*fleet.Proxy) bool {
	return func(p *fleet.Proxy) bool {
		return p != nil && !p.CredentialsMissing && p.Credentials != nil && p.Credentials.Password == want
	}
}

func TestFeedFollowsProxies(t *testing.T) {
	x := newFeeding(t)
	x.start()
	x.synced()
	p := x.proxy("a", "")
	first := x.until("a", "created", present)
	if first.UID != string(p.UID) || first.Endpoint.Host != "a.test" || first.CredentialsMissing {
		t.Errorf("the store has %+v", first)
	}
	p.Spec.Endpoint.Port, p.Spec.Attributes = 8080, map[string]v1alpha1.AttributeValue{"country": "de"}
	must(t, x.client.Update(t.Context(), p))
	x.until("a", "changed", func(p *fleet.Proxy) bool { return p.Endpoint.Port == 8080 })
	if got := x.store.List(x.ns, map[string]string{"country": "de"}); len(got) != 1 {
		t.Errorf("selected %d by the new attribute", len(got))
	}
	p.Status.Phase = v1alpha1.PhaseReady
	must(t, x.client.Status().Update(t.Context(), p))
	x.until("a", "the status", func(p *fleet.Proxy) bool { return p.Phase == v1alpha1.PhaseReady })
	must(t, x.client.Delete(t.Context(), p))
	x.until("a", "deleted", gone)
	again := x.proxy("a", "")
	x.until("a", "a successor", func(p *fleet.Proxy) bool { return p != nil && p.UID == string(again.UID) })
	x.stop()
}

func TestFeedFollowsSecrets(t *testing.T) {
	x := newFeeding(t)
	x.start()
	x.synced()
	for _, n := range []string{"a", "b"} {
		x.proxy(n, "creds")
		x.until(n, "no Secret", missing)
	}
	x.proxy("free", "")
	s := x.secret("creds", "one", true)
	first := x.until("a", "the Secret", password("one")).Credentials.Revision
	x.until("b", "the Secret", password("one"))

	s.Data["password"] = []byte("two")
	must(t, x.client.Update(t.Context(), s))
	rotated := x.until("a", "a rotation", password("two"))
	if rotated.Credentials.Revision == first {
		t.Error("a rotation leaves the revision as it was")
	}
	x.until("b", "a rotation", password("two"))

	s.Data["password"] = []byte("two\n")
	must(t, x.client.Update(t.Context(), s))
	x.until("a", "unusable credentials", missing)

	s.Data["password"] = []byte("three")
	must(t, x.client.Update(t.Context(), s))
	x.until("a", "mended credentials", password("three"))

	s.Labels = nil
	must(t, x.client.Update(t.Context(), s))
	x.until("a", "a Secret that lost its label", missing)
	s.Labels = map[string]string{v1alpha1.LabelProxyAuth: "true"}
	must(t, x.client.Update(t.Context(), s))
	x.until("a", "a Secret that was labelled again", password("three"))

	must(t, x.client.Delete(t.Context(), s))
	x.until("a", "a deleted Secret", missing)
	x.until("b", "a deleted Secret", missing)

	x.secret("bare", "one", false)
	x.proxy("c", "bare")
	x.until("c", "a Secret without the label", missing)
	if free := x.store.Get(x.key("free")); free == nil || free.CredentialsMissing || free.Credentials != nil {
		t.Errorf("a Proxy without credentials is %+v", free)
	}
	x.stop()
}

// TestSyncedMeansComplete: whoever waits for Synced may take what is not in the store for not existing.
func TestSyncedMeansComplete(t *testing.T) {
	const n = 60
	x := newFeeding(t)
	x.secret("creds", "one", true)
	for i := range n {
		x.proxy(fmt.Sprintf("p%d", i), "creds")
	}
	x.start()
	x.synced()
	if got := x.store.Len(); got != n {
		t.Errorf("synced with %d of %d Proxies", got, n)
	}
	for _, p := range x.store.List(x.ns, nil) {
		if !password("one")(p) {
			t.Errorf("synced with %s lacking its credentials", p.Key)
		}
	}
	x.stop()
}

func TestFeedEndsBeforeItIsSynced(t *testing.T) {
	x := newFeeding(t)
	x.start()
	x.stop()
}
