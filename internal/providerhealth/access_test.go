package providerhealth_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// An operator that is restricted to a namespace may have no rights in the whole cluster.
func TestWithoutRightsItSaysSoOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	cfg := rest.CopyConfig(config)
	cfg.Impersonate.UserName = "nobody-in-particular"
	x := newRig(t, func(x *rig, o *providerhealth.Options) {
		c := newClient(x.t, cfg)
		o.Live, o.Client = c, c
	})
	b := newBackend(up("a"))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.round()
	b.answers(down("a", provider.CheckUnauthorized, "no"))
	x.round()
	x.round()
	if n := x.logs.count("WARNING: ", "lacks the right to list providerhealths.crawl.example.com"); n != 1 {
		t.Errorf("said %d times:\n%s", n, x.logs)
	}
	if n := x.logs.count("a: Unauthorized: no"); n != 1 {
		t.Errorf("the log tells of the transition %d times:\n%s", n, x.logs)
	}
	if got := x.series.all(); len(got) != 1 || got[x.name("cloud")+"/a"] || x.get("cloud") != nil {
		t.Errorf("series: %v", got)
	}
	if got := x.events.take(); len(got) > 0 {
		t.Errorf("events about an object that is not there: %q", got)
	}
}

// It may read and yet not write.
func TestWithoutTheRightToWriteItSaysSoOnce(t *testing.T) {
	t.Parallel()
	cfg := rest.CopyConfig(config)
	cfg.Impersonate.UserName = "nobody-in-particular"
	x := newRig(t, func(x *rig, o *providerhealth.Options) { o.Client = newClient(x.t, cfg) })
	x.entry("cloud", "1", newBackend(down("a", provider.CheckUnauthorized, "no")))
	x.start(t.Context())
	x.round()
	x.round()
	if n := x.logs.count("WARNING: ", "lacks the right to write"); n != 1 {
		t.Errorf("said %d times:\n%s", n, x.logs)
	}
	if n := x.logs.count("a: Unauthorized: no"); n != 1 {
		t.Errorf("the log tells of the transition %d times:\n%s", n, x.logs)
	}
}

func TestEachCheckHasASpan(t *testing.T) {
	t.Parallel()
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	ctx, root := tp.Tracer("test").Start(t.Context(), "root")
	defer root.End()
	x := newRig(t)
	b := &backend{}
	b.does(func(ctx context.Context) []provider.TargetStatus {
		_, span := tracing.Start(ctx, "fake.list")
		span.End()
		return []provider.TargetStatus{up("a"), down("b", "Timeout", "secret-text")}
	})
	x.entry("cloud", "1", b)
	x.start(ctx)
	x.shows("cloud", "False Timeout 1/2")
	x.round()
	x.settled()
	x.stop()
	checks, whole := map[string]sdktrace.ReadOnlySpan{}, 0
	for _, s := range rec.Ended() {
		if s.Name() == "providerhealth.check" {
			checks[s.SpanContext().SpanID().String()] = s
			want := []attribute.KeyValue{
				attribute.String("provider.name", x.name("cloud")), attribute.String("provider.type", "fake"),
				attribute.Int("provider.targets", 2), attribute.Int("provider.targets.ready", 1),
			}
			if len(s.Attributes()) == 2 {
				continue // the end has cut it short
			}
			whole++
			got := attribute.NewSet(s.Attributes()...)
			if expect := attribute.NewSet(want...); !got.Equals(&expect) || strings.Contains(s.Status().Description, "secret") {
				t.Errorf("span %v, %+v", s.Attributes(), s.Status())
			}
		}
	}
	if whole < 2 {
		t.Errorf("%d spans in two rounds", whole)
	}
	children := 0
	for _, s := range rec.Ended() {
		if s.Name() != "fake.list" {
			continue
		}
		children++
		if checks[s.Parent().SpanID().String()] == nil {
			t.Error("a call of the provider is not inside of its check's span")
		}
	}
	if children != len(checks) {
		t.Errorf("%d calls in %d checks", children, len(checks))
	}
}

// kubeconfig writes what kubectl needs.
func kubeconfig(t *testing.T) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*c, path))
	return path
}

func TestKubectl(t *testing.T) {
	t.Parallel()
	bin, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl")
	}
	path := kubeconfig(t)
	kubectl := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), bin, append([]string{"--kubeconfig", path}, args...)...).CombinedOutput()
		return string(out), err
	}
	x := newRig(t)
	b := newBackend(up("a"), down("b", provider.CheckUnauthorized, "the key was refused"))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.shows("cloud", "False Unauthorized 1/2")
	if out, err := kubectl("wait", "--for=condition=Ready", "--timeout=100ms", "providerhealth/"+x.name("cloud")); err == nil {
		t.Errorf("it is Ready: %s", out)
	}
	waited := make(chan error, 1)
	go func() {
		out, err := kubectl("wait", "--for=condition=Ready", "--timeout=30s", "eph/"+x.name("cloud"))
		if err != nil {
			err = errors.New(out)
		}
		waited <- err
	}()
	out, err := kubectl("get", "eph", x.name("cloud"), "-o", "wide")
	must(t, err)
	for _, want := range []string{
		"READY", "TARGETS", "REASON", "TYPE", "AGE", "CHECKED", "ACCEPTED", "WORST", "MESSAGE",
		"False", "1/2", "Unauthorized", "fake", "1 of 2 targets is not ready: b: Unauthorized: the key was refused",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = kubectl("get", "egress", "--no-headers")
	if err != nil || !strings.Contains(out, "providerhealth.crawl.example.com/"+x.name("cloud")) {
		t.Errorf("kubectl get egress: %v\n%s", err, out)
	}
	b.answers(up("a"), up("b"))
	x.round()
	select {
	case err := <-waited:
		must(t, err)
	case <-time.After(within):
		t.Error("kubectl still waits")
	}
}

// A waiting program sees the condition on its watch.
func TestTheConditionArrivesOnAWatch(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(down("a", provider.CheckTimeout, ""))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.shows("cloud", "False Timeout 0/1")
	c, err := client.NewWithWatch(config, client.Options{Scheme: x.client.Scheme()})
	must(t, err)
	w, err := c.Watch(t.Context(), &v1alpha1.ProviderHealthList{}, client.MatchingFields{"metadata.name": x.name("cloud")})
	must(t, err)
	defer w.Stop()
	b.answers(up("a"))
	x.round()
	end := time.After(within)
	for {
		select {
		case e := <-w.ResultChan():
			obj, ok := e.Object.(*v1alpha1.ProviderHealth)
			if ok && condition(t, obj, v1alpha1.ConditionReady).Status == "True" {
				return
			}
		case <-end:
			t.Fatal("the watch shows nothing")
		}
	}
}
