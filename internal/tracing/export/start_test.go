package export_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/export"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) log() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// start starts with these variables, as a process would.
func start(t *testing.T, l *lines, out *bytes.Buffer, v map[string]string) (stop func()) {
	t.Helper()
	return startCounted(t, l, out, v, nil)
}

func startCounted(t *testing.T, l *lines, out *bytes.Buffer, v map[string]string, counts *export.Counts) (stop func()) {
	t.Helper()
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range v {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		otel.SetTracerProvider(noop.NewTracerProvider())
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	})
	stop, err := export.Start(t.Context(), export.Read(os.LookupEnv), export.Options{
		Service: "egress-proxies-operator", Version: "v1.2.3", Attributes: []attribute.KeyValue{attribute.String("k8s.pod.name", "pod-1")},
		Out: out, Log: l.log(), Counts: counts,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func span(t *testing.T, name string) {
	t.Helper()
	ctx, s := tracing.Start(t.Context(), name, attribute.String("a", "b"))
	_, below := tracing.Start(ctx, name+".below")
	below.End()
	s.End()
}

func attributes(s otlptest.Span) map[string]string {
	out := map[string]string{}
	for _, kv := range s.Resource.GetAttributes() {
		out[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return out
}

func TestEveryProtocol(t *testing.T) {
	for _, tc := range []struct{ protocol, path, kind string }{
		{export.GRPC, "", ""}, {export.Protobuf, "/v1/traces", "application/x-protobuf"}, {export.JSON, "/v1/traces", "application/json"},
	} {
		t.Run(tc.protocol, func(t *testing.T) {
			r := otlptest.New(t)
			address := r.HTTP
			if tc.protocol == export.GRPC {
				address = r.GRPC
			}
			l := &lines{}
			stop := start(t, l, nil, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL": tc.protocol,
				"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret", "OTEL_RESOURCE_ATTRIBUTES": "team=crawl,bad", "OTEL_SERVICE_NAME": "mine",
			})
			span(t, "work")
			stop()
			spans := r.Spans()
			if len(spans) != 2 || spans[0].GetName() != "work.below" || string(spans[0].GetParentSpanId()) != string(spans[1].GetSpanId()) {
				t.Fatalf("spans %v", spans)
			}
			a := attributes(spans[0])
			if a["service.name"] != "mine" || a["service.version"] != "v1.2.3" || a["k8s.pod.name"] != "pod-1" || a["team"] != "crawl" {
				t.Errorf("resource %v", a)
			}
			if tc.path != "" {
				q := r.Requests()[0]
				if q.Path != tc.path || q.ContentType != tc.kind || q.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("delivered to %s as %s with %v", q.Path, q.ContentType, q.Header)
				}
			}
			if text := l.String(); strings.Contains(text, "secret") || !strings.Contains(text, "OTEL_RESOURCE_ATTRIBUTES") {
				t.Errorf("log:\n%s", text)
			}
		})
	}
}

func TestNothingAskedFor(t *testing.T) {
	r := otlptest.New(t)
	before := otel.GetTracerProvider()
	l := &lines{}
	stop := start(t, l, nil, map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP})
	span(t, "work")
	stop()
	if otel.GetTracerProvider() != before || r.Connections() != 0 || l.String() != "" {
		t.Errorf("provider %T, %d connections, log %q", otel.GetTracerProvider(), r.Connections(), l)
	}
}

func TestConsole(t *testing.T) {
	var out bytes.Buffer
	stop := start(t, &lines{}, &out, map[string]string{"OTEL_TRACES_EXPORTER": "console"})
	span(t, "work")
	stop()
	if !strings.Contains(out.String(), `"Name":"work.below"`) || !strings.Contains(out.String(), "egress-proxies-operator") {
		t.Errorf("written: %s", out.String())
	}
}

func TestASamplerIsKept(t *testing.T) {
	r := otlptest.New(t)
	stop := start(t, &lines{}, nil, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP, "OTEL_TRACES_SAMPLER": "always_off"})
	span(t, "work")
	stop()
	if n := len(r.Spans()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

// A collector that accepts and says nothing, or is not there, delays the end by 5 s at most.
func TestCollectorsThatDoNotAnswer(t *testing.T) {
	var c net.ListenConfig
	silent, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	gone, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	_ = gone.Close()
	password := base64.RawURLEncoding.EncodeToString([]byte("sentinel"))
	for _, tc := range []struct{ reason, protocol, address string }{
		{"silent, by gRPC", export.GRPC, silent.Addr().String()}, {"nobody, by HTTP", export.Protobuf, nobody},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			l := &lines{}
			stop := start(t, l, nil, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:" + password + "@" + tc.address, "OTEL_EXPORTER_OTLP_PROTOCOL": tc.protocol,
				"OTEL_EXPORTER_OTLP_TIMEOUT": "5500",
			})
			began := time.Now()
			span(t, "work")
			if d := time.Since(began); d > time.Second {
				t.Errorf("the work took %v", d)
			}
			began = time.Now()
			stop()
			if d := time.Since(began); d > 7*time.Second {
				t.Errorf("the end took %v", d)
			}
			if strings.Contains(l.String(), password) {
				t.Errorf("the log shows the password:\n%s", l)
			}
			// What is left of the exporter ends with its own time-out; a process would have ended by then.
			for deadline := time.Now().Add(30 * time.Second); goleak.Find() != nil && time.Now().Before(deadline); {
				runtime.Gosched()
			}
		})
	}
}

// What goes wrong again and again is told once a minute.
func TestFailuresAreToldNowAndThen(t *testing.T) {
	l := &lines{}
	f := export.NewFailures(l.log())
	for range 1000 {
		f.Handle(context.DeadlineExceeded)
	}
	if text := l.String(); strings.Count(text, "\n") != 0 || text == "" {
		t.Errorf("log:\n%s", text)
	}
}
