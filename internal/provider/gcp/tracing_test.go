package gcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// hidden is what must show nowhere: cloud-init, keys and tokens.
var hidden = regexp.MustCompile(`(?i)sentinel|token-of|PRIVATE KEY|bearer`)

// traced is a world whose provider is called in a trace, with a service account's key, through a front that sees all.
type traced struct {
	*guarded
	p   provider.Provider
	ctx context.Context
	rec *tracetest.SpanRecorder

	headersMu sync.Mutex
	headers   []http.Header
}

func newTraced(t *testing.T, settings ...func(*world)) *traced {
	t.Helper()
	w := &traced{guarded: newGuarded(t)}
	for _, f := range settings {
		f(w.world)
	}
	front := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.headersMu.Lock()
		w.headers = append(w.headers, r.Header.Clone())
		w.headersMu.Unlock()
		w.emulator.ServeHTTP(rw, r)
	}))
	w.write(w.key(t, "sentinel-account"))
	p, err := w.open(entry, owner, fmt.Sprintf("project: project-a\nendpoint: %s\ncredentialsFile: %s\n%s", front, w.file, w.extra))
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	w.rec = tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.rec))
	ctx, span := tp.Tracer("test").Start(t.Context(), "pass")
	t.Cleanup(func() {
		span.End()
		_ = tp.Shutdown(context.Background())
	})
	w.p, w.ctx = instrument.WithTracing(p, entry), ctx
	return w
}

// secret is a request whose cloud-init must show nowhere.
func (w *traced) secret() provider.CreateRequest {
	req := w.request()
	req.CloudInit = "#cloud-config\npassword: sentinel-password\n"
	req.Credentials = &provider.Credentials{Username: "sentinel-user", Password: "sentinel-password", Revision: "r1"}
	return req
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// call makes one call and returns its span and its requests, in short, after a look at what goes for all of them.
func (w *traced) call(t *testing.T, op string, do func(context.Context) error) (span sdktrace.ReadOnlySpan, requests []string, err error) {
	t.Helper()
	w.rec.Reset()
	sent := w.sent()
	err = do((&logs{t: t}).into(w.ctx)) // whose lines must not show too much, either
	ended := w.rec.Ended()
	if len(ended) == 0 || ended[len(ended)-1].Name() != "provider."+op {
		t.Fatalf("%d spans, want provider.%s to end last", len(ended), op)
	}
	span = ended[len(ended)-1]
	for _, s := range ended[:len(ended)-1] {
		a := attributesOf(s)
		u, parseErr := url.Parse(a["url.full"])
		must(w.t, parseErr)
		path := strings.Split(strings.TrimPrefix(u.Path, "/compute/v1/projects/project-a/"), "/")
		what := path[len(path)-1] // aggregated/instances, global/firewalls/<name>, zones/<zone>/instances/<name>
		switch path[0] {
		case "zones":
			what = path[2]
		case "global":
			what = path[1]
		}
		requests = append(requests, strings.TrimSpace(a["http.request.method"]+" "+what+" "+a["http.response.status_code"]))
		if s.Parent().SpanID() != span.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindClient || s.Name() != "HTTP "+a["http.request.method"] || u.RawQuery != "" {
			t.Errorf("%s of %s is %v, below %v, to %s", s.Name(), op, s.SpanKind(), s.Parent().SpanID(), u)
		}
		if s.StartTime().Before(span.StartTime()) || s.EndTime().After(span.EndTime()) {
			t.Errorf("%s of %s is not inside of it in time", s.Name(), op)
		}
	}
	if n := w.sent() - sent; n != len(requests) {
		t.Errorf("%s has sent %d requests, and shows %q", op, n, requests)
	}
	for _, s := range ended {
		if all := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events(), s.Links()); hidden.MatchString(all) {
			t.Errorf("%s of %s shows too much: %s", s.Name(), op, all)
		}
	}
	return span, requests, err
}

func TestEveryRequestIsAChildOfItsCall(t *testing.T) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator()) })
	w := newTraced(t, func(w *world) { w.firewall = managed })
	req := w.secret()
	ref := w.ref(req, 1)
	gone := w.ref(w.request(), 1)
	get := func(ref provider.Ref) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err }
	}
	for _, step := range []struct {
		op   string
		do   func(context.Context) error
		want []string
	}{
		{"create", func(ctx context.Context) error { return w.p.Create(ctx, req, ref) }, []string{
			"GET instances 404", "GET disks 404", "GET firewalls 404", "POST firewalls 200", "POST instances 200",
		}},
		{"get", get(ref), []string{"GET instances 200"}},
		{"get", get(gone), []string{"GET instances 404", "GET operations 200", "GET instances 404", "GET disks 404"}},
		{"list", func(ctx context.Context) error { _, err := w.p.ListByTag(ctx); return err }, []string{"GET disks 200", "GET instances 200"}},
		{"delete", func(ctx context.Context) error { return w.p.Delete(ctx, ref) }, []string{"GET instances 200", "GET operations 200", "DELETE instances 200"}},
	} {
		span, requests, err := w.call(t, step.op, step.do)
		must(w.t, err)
		if !slices.Equal(requests, step.want) {
			t.Errorf("%s: %q, want %q", step.op, requests, step.want)
		}
		if a := attributesOf(span); span.Status().Code != codes.Ok || a["provider.name"] != entry || a["provider.result"] != "ok" {
			t.Errorf("%s is %v with %v", step.op, span.Status(), a)
		}
	}
	for _, h := range w.headers {
		if h.Get("Authorization") != "Bearer token-of-sentinel-account" || h.Get("Traceparent") != "" || h.Get("Tracestate") != "" || h.Get("Baggage") != "" {
			t.Errorf("a request had the headers %v", h)
		}
	}
}

func TestWhatFailsIsMarked(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	create := func(ctx context.Context) error { return w.p.Create(ctx, req, w.ref(req, 1)) }
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{
		Status: 400, Reason: "invalid", Message: "Invalid value for field 'resource.metadata.items[0].value': '" + req.CloudInit + "'. It is not taken.",
	})
	span, requests, err := w.call(t, "create", create)
	expect(t, "Create that is quoted", err, provider.ErrPermanent, "", "resource.metadata.items[0].value")
	if hidden.MatchString(err.Error()) || span.Status().Code != codes.Error || !strings.HasPrefix(span.Status().Description, "permanent: insert instances") {
		t.Errorf("%v, with %v and %q", err, span.Status(), requests)
	}
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{Reset: true})
	_, _, err = w.call(t, "create", create)
	expect(t, "Create without an answer", err, provider.ErrTransient, provider.ReasonUnreachable)
	ended := w.rec.Ended()
	if s := ended[len(ended)-2].Status(); s.Code != codes.Error || s.Description != "no answer" {
		t.Errorf("the lost request is %v", s)
	}
}

// A provider that everybody can get from otel would take whatever begins without a parent.
func TestWithoutATraceRequestsBeginNone(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	w := newGuarded(t)
	w.write(w.key(t, "first"))
	ref, _ := w.create(w.p)
	w.list(w.p)
	w.p.Check(t.Context())
	must(w.t, w.p.Delete(t.Context(), ref))
	if n := len(rec.Started()); n != 0 {
		t.Errorf("%d spans, the first is %s", n, rec.Started()[0].Name())
	}
}
