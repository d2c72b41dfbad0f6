package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// What must not show. All have the word sentinel in them.
const (
	secretWord     = "sentinel"
	secretUser     = "sentinel-user"
	secretPassword = "sentinel-pass-word"
	cloudInit      = "#cloud-config\n# sentinel-of-the-cloud-init for ${PROXY_USERNAME} and ${PROXY_PASSWORD}\n"
)

// backend is what one provider entry leads to.
type backend struct {
	// entry is the entry's name, kind its type and text the entry as it stands in the file.
	entry, kind, text string
	// cloudInit: an instance is given the user-data.
	cloudInit bool
	// serves: instances lead somewhere, so that Proxies become healthy.
	serves bool
	// placement is that of the Proxy of that role.
	placement func(role string) *v1alpha1.Placement
	// tend does what a backend does by itself. It is called again and again.
	tend func()
	// age makes the Proxy's instance old enough for the collector.
	age func(uid types.UID)
}

// stage is a namespace with an operator whose traces are recorded.
type stage struct {
	*ears
	t        *testing.T
	c        client.Client
	ns       string
	receiver *otlptest.Receiver
	origin   string
	port     int32
	backends []*backend
	// left are the UIDs of Proxies that have let their instances go.
	left map[*backend]types.UID
	// secrets are further words that must not show.
	secrets []string
	op      *operatorProcess
	tree    func() *tree
}

func newStage(t *testing.T) *stage {
	t.Helper()
	x := &stage{t: t, ears: newEars(), c: cluster(t), receiver: otlptest.New(t), left: map[*backend]types.UID{}}
	x.ns = newNamespace(t, x.c)
	s := httptest.NewServer(x.at("the probes' target", http.HandlerFunc(noContent)))
	t.Cleanup(s.Close)
	x.origin = s.URL
	_, port, err := net.SplitHostPort(ownAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	x.port = int32(n)
	x.keep("auth", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": secretUser, "password": secretPassword})
	x.keep("cloud-init", v1alpha1.LabelCloudInit, corev1.SecretTypeOpaque, map[string]string{"user-data": cloudInit})
	return x
}

func (x *stage) keep(name, label string, kind corev1.SecretType, data map[string]string) {
	x.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name, Labels: map[string]string{label: v1alpha1.LabelValueTrue}}, Type: kind, StringData: data,
	}
	if err := x.c.Create(x.t.Context(), s); err != nil {
		x.t.Fatal(err)
	}
}

// named is the name of an entry; objects that are named after entries have no namespace.
func (x *stage) named(name string) string { return x.ns + "-" + name }

// sending are variables by which spans go to an endpoint soon.
func sending(endpoint, address, protocol string) map[string]string {
	return map[string]string{
		endpoint: "http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_BSP_SCHEDULE_DELAY": "200",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20sentinel-of-the-collector", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
	}
}

// start runs an operator on the backends. client is the ID of the span that a client of the API will send.
func (x *stage) start(client string, env map[string]string, args ...string) {
	x.t.Helper()
	var entries []string
	kinds := map[string]string{}
	for _, b := range x.backends {
		entries, kinds[b.entry] = append(entries, b.text), b.kind
	}
	x.tree = func() *tree { return treeOf(x.receiver.Spans(), kinds, client) }
	x.op = startWith(x.t, env, apiServer(x.t, x.ears, "the API server", nil, nil), providersOf(entries...), append([]string{
		"--namespace", x.ns, "--installation-id", x.ns, "--gc-allow-namespaced", "--gc-interval=10s", "--gc-min-age=1m", "--drift-poll=1s",
		"--provider-check-interval=1s", "--provider-call-timeout=10s", "--clock-skew-allowance=0s", "--provisioning-poll=1s", "--deletion-poll=1s",
		"--drain-timeout=1s", "--log-level=2",
	}, args...)...)
}

func (x *stage) create(b *backend, role string) {
	x.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: b.name(role)},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: b.entry, Port: ptr.To(x.port), Attributes: map[string]v1alpha1.AttributeValue{"role": v1alpha1.AttributeValue(b.name(role))},
			Auth: &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "auth"}},
			HealthCheck: &v1alpha1.HealthCheck{
				URL: x.origin + "/?token=sentinel-of-the-url", ExpectedStatus: ptr.To(int32(http.StatusNoContent)), Interval: v1alpha1.NewDuration(time.Second),
			},
		},
	}
	if !b.serves {
		p.Spec.HealthCheck.Interval = v1alpha1.NewDuration(time.Hour)
	}
	if b.placement != nil {
		p.Spec.Placement = b.placement(role)
	}
	if b.cloudInit {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "cloud-init"}}
	}
	if err := x.c.Create(x.t.Context(), p); err != nil {
		x.t.Fatal(err)
	}
}

// name is that of the backend's Proxy in a role.
func (b *backend) name(role string) string { return b.kind + "-" + role }

func (x *stage) get(name string) *v1alpha1.Proxy {
	x.t.Helper()
	p := &v1alpha1.Proxy{}
	if err := x.c.Get(x.t.Context(), client.ObjectKey{Namespace: x.ns, Name: name}, p); client.IgnoreNotFound(err) != nil {
		x.t.Fatal(err)
	}
	return p
}

func (x *stage) annotate(name, key, value string) {
	x.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := x.c.Patch(x.t.Context(), p, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		x.t.Fatal(err)
	}
}

func (x *stage) remove(name string) {
	x.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name}}
	if err := x.c.Delete(x.t.Context(), p); client.IgnoreNotFound(err) != nil {
		x.t.Fatal(err)
	}
}

// done reports whether an instance of an attempt after that one is as good as it gets.
func (x *stage) done(b *backend, role string, after int64) bool {
	p := x.get(b.name(role))
	condition := v1alpha1.ConditionProvisioned
	if b.serves {
		condition = v1alpha1.ConditionReady
	}
	return p.Status.Instance != nil && p.Status.Instance.Attempt > after && meta.IsStatusConditionTrue(p.Status.Conditions, condition)
}

// until waits for a condition while the backends do what they do.
func (x *stage) until(what string, done func() bool) {
	x.t.Helper()
	untilWithin(x.t, 2*time.Minute, what, func() bool {
		for _, b := range x.backends {
			if b.tend != nil {
				b.tend()
			}
		}
		return done()
	})
}

// release lets a Proxy go and leaves its instance alone.
func (x *stage) release(name string) {
	x.annotate(name, v1alpha1.AnnotationSkipCleanup, v1alpha1.LabelValueTrue)
	x.remove(name)
}
