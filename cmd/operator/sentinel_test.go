package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
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

// planted is an operator among parties that repeat what they are told, with a word of its own in each place where a secret can
// be, also by mistake.
type planted struct {
	*cloudOnHost
	*indiscreet
	s       *sentinels
	origin  string
	tokens  string
	metrics string
	spans   *otlptest.Receiver
	witness *witness
}

func newPlanted(t *testing.T) *planted {
	t.Helper()
	s := newSentinels()
	s.is("DISCOVERY_TOKEN", "t0ken-of-the-test")
	x := &planted{
		s: s, cloudOnHost: &cloudOnHost{t: t, c: cluster(t), folder: t.TempDir()}, indiscreet: &indiscreet{t: t, s: s, folder: t.TempDir()},
		spans: otlptest.New(t), metrics: freeAddress(t),
	}
	x.ns = newNamespace(t, x.c)
	x.witness = watchAll(t, x.ns)
	x.keep("auth", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": s.at("a user"), "password": s.at("a password")})
	x.keep("user-data", v1alpha1.LabelCloudInit, corev1.SecretTypeOpaque, map[string]string{
		"user-data": "#cloud-config\n# " + s.at("a cloud-init") + " for ${PROXY_USERNAME} and ${PROXY_PASSWORD}\n",
	})
	x.origin = x.server(false, func(w http.ResponseWriter, r *http.Request) {
		if x.broken.Load() {
			http.Error(w, repeated(r), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}).URL
	x.tokens = x.indiscreet.file("tokens.yaml", []byte(x.tokenFile("a token of the file")))
	return x
}

func (x *planted) keep(name, label string, kind corev1.SecretType, data map[string]string) {
	x.cloudOnHost.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name, Labels: map[string]string{label: v1alpha1.LabelValueTrue}}, Type: kind, StringData: data,
	}
	if err := x.c.Create(x.cloudOnHost.t.Context(), secret); err != nil {
		x.cloudOnHost.t.Fatal(err)
	}
}

func (x *planted) tokenFile(place string) string {
	return fmt.Sprintf("tokens:\n- {name: crawler, token: %s, namespaces: [%s]}\n", x.s.at(place), x.ns)
}

// entries is the providers' configuration. The clouds' proxies have the addresses.
func (x *planted) entries(addresses []string) string {
	endpoint := x.computeEngine(addresses)
	cloud := func(name, project, key string) string {
		return fmt.Sprintf("- name: %s\n  type: gcp\n  gcp:\n    project: %s\n    endpoint: %s\n    credentialsFile: %s\n    firewall: {existingSourceRanges: [10.0.0.0/8]}\n",
			x.named(name), project, endpoint, key)
	}
	key := x.accountKey("operator", true)
	return providersOf(cloud("cloud", "project-a", key), cloud("spare", "project-b", key), cloud("quoting", "project-q", key),
		cloud("denied", "project-a", x.accountKey("nobody", false)),
		fmt.Sprintf("- name: %s\n  type: kubernetes\n  kubernetes: {kubeconfig: %s, namespace: pods}\n", x.named("pods"), x.podCluster()),
		fmt.Sprintf("- name: %s\n  type: kvm\n  kvm:\n%s", x.named("hypervisors"), x.hypervisors()))
}

// run starts a replica. Its first is traced.
func (x *planted) run(traced bool) *operatorProcess {
	t := x.cloudOnHost.t
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+x.s.at("the user of a collector")+":"+x.s.at("the password of a collector")+"@"+x.spans.HTTP+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20"+x.s.at("the token of a collector"))
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
	t.Setenv("OTEL_SDK_DISABLED", fmt.Sprint(!traced))
	metrics := x.metrics
	if !traced {
		metrics = "0"
	}
	return x.start("--log-level=5", "--gcp-wire-log-full-payloads", "--trace-health-probes", "--leader-elect", "--leader-election-lease-duration=30s",
		"--metrics-bind-address", metrics, "--gc-interval=10s", "--gc-min-age=1m", "--gc-allow-namespaced", "--provider-check-interval=1s",
		"--provider-call-timeout=5s", "--drain-timeout=1s", "--deletion-poll=1s", "--provisioning-poll=1s", "--min-report-interval=1s",
		"--require-auth", "--token-file", x.tokens, loopbackAllowed, "--judge-url", x.origin+"/?token="+x.s.at("a judge's URL"))
}

// proxy makes one that has secrets in all places which it knows, and in some others.
func (x *planted) proxyOf(name, entry string, change func(*v1alpha1.Proxy)) {
	t := x.cloudOnHost.t
	t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name, Annotations: map[string]string{"example.com/note": x.s.at("an annotation")}},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: x.named(entry), Port: ptr.To(x.indiscreet.port), Auth: &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "auth"}},
			CloudInit: &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "user-data"}},
			Placement: &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"},
			HealthCheck: &v1alpha1.HealthCheck{
				URL: x.origin + "/?token=" + x.s.at("a probe's URL"), Interval: v1alpha1.NewDuration(time.Second), FailureThreshold: ptr.To[int32](1),
			},
		},
	}
	if change != nil {
		change(p)
	}
	if err := x.c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func (x *planted) annotate(name, key, value string) {
	x.cloudOnHost.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := x.c.Patch(x.cloudOnHost.t.Context(), p, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		x.cloudOnHost.t.Fatal(err)
	}
}

// ask sends a request as it stands and returns the answer with its headers.
func (x *planted) ask(p *operatorProcess, method, path, token, key, body string) (status int, answer string) {
	t := x.cloudOnHost.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.api+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", token)
	req.Header.Set("User-Agent", x.s.at("a User-Agent"))
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, fmt.Sprint(res.Header, string(data))
}

// healthy reports whether a Proxy has that reason for being Healthy or not.
func (x *planted) healthy(name, reason string) bool {
	c := meta.FindStatusCondition(x.get(name).Status.Conditions, v1alpha1.ConditionHealthy)
	return c != nil && c.Reason == reason
}

// spoil writes a file of tokens.
func (x *planted) spoil(text string) {
	x.cloudOnHost.t.Helper()
	if err := os.WriteFile(x.tokens, []byte(text), 0o600); err != nil {
		x.cloudOnHost.t.Fatal(err)
	}
}
