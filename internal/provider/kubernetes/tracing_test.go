package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// traced is a world whose provider is called in a trace.
type traced struct {
	*world
	p   provider.Provider
	ctx context.Context
	rec *tracetest.SpanRecorder
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	w := newT(t)
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	ctx, span := tp.Tracer("test").Start(t.Context(), "pass")
	t.Cleanup(func() {
		span.End()
		_ = tp.Shutdown(context.Background())
	})
	return &traced{w, instrument.WithTracing(w.provider(), entry), ctx, rec}
}

// secret is a request whose credentials must show nowhere.
func (w *traced) secret() provider.CreateRequest {
	req := w.guarded()
	req.Credentials = &provider.Credentials{Username: "sentinel-user", Password: "sentinel-password", Revision: "r1"}
	return req
}

// call makes one call and returns its span and those of its requests, after a look at what goes for all of them.
func (w *traced) call(t *testing.T, op string, do func(context.Context) error) (span sdktrace.ReadOnlySpan, requests []sdktrace.ReadOnlySpan, err error) {
	t.Helper()
	w.rec.Reset()
	w.wire.mu.Lock()
	w.wire.seen = nil
	w.wire.mu.Unlock()
	err = do((&logs{t: t}).into(w.ctx)) // whose lines must not show too much, either
	ended := w.rec.Ended()
	if len(ended) == 0 || ended[len(ended)-1].Name() != "provider."+op {
		t.Fatalf("%d spans, want provider.%s to end last", len(ended), op)
	}
	span, requests = ended[len(ended)-1], ended[:len(ended)-1]
	var shown []string
	for _, s := range requests {
		a := attributesOf(s)
		u, parseErr := url.Parse(a["url.full"])
		must(t0(t), parseErr)
		shown = append(shown, a["http.request.method"]+" "+u.Path)
		if s.Parent().SpanID() != span.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindClient || s.Name() != "HTTP "+a["http.request.method"] {
			t.Errorf("%s of %s is %v, below %v", s.Name(), op, s.SpanKind(), s.Parent().SpanID())
		}
		if s.StartTime().Before(span.StartTime()) || s.EndTime().After(span.EndTime()) {
			t.Errorf("%s of %s is not inside of it in time", s.Name(), op)
		}
	}
	w.wire.mu.Lock()
	sent := slices.Clone(w.wire.seen)
	w.wire.mu.Unlock()
	if !slices.Equal(shown, sent) {
		t.Errorf("%s has the requests\n%s\nbut sent\n%s", op, strings.Join(shown, "\n"), strings.Join(sent, "\n"))
	}
	for _, s := range ended {
		if all := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events(), s.Links()); hidden.MatchString(all) {
			t.Errorf("%s of %s shows too much: %s", s.Name(), op, all)
		}
	}
	return span, requests, err
}

// hidden is what must show nowhere: credentials, hashes, queries.
var hidden = regexp.MustCompile(`sentinel|\$2[aby]\$|\?`)

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// short is what a trace says of requests: method, resource and status.
func (w *traced) short(spans []sdktrace.ReadOnlySpan) (out []string) {
	for _, s := range spans {
		a := attributesOf(s)
		_, path, _ := strings.Cut(a["url.full"], "/namespaces/")
		_, path, _ = strings.Cut(path, "/")
		resource, _, _ := strings.Cut(path, "/")
		out = append(out, strings.TrimSpace(fmt.Sprint(a["http.request.method"], " ", resource, " ", a["http.response.status_code"])))
	}
	return out
}

func TestEveryRequestIsAChildOfItsCall(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	ref := w.ref(req, 1)
	u, _ := instrument.As[provider.CredentialUpdater](w.p)
	for _, step := range []struct {
		op   string
		do   func(context.Context) error
		want []string
	}{
		{"create", func(ctx context.Context) error { return w.p.Create(ctx, req, ref) }, []string{
			"GET pods 404", "GET secrets 404", "POST secrets 201", "POST pods 201",
		}},
		{"get", func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err }, []string{"GET pods 200"}},
		{"list", func(ctx context.Context) error { _, err := w.p.ListByTag(ctx); return err }, []string{
			"GET secrets 200", "GET pods 200", "GET secrets 200", "GET pods 200", // of two namespaces
		}},
		{"update_credentials", func(ctx context.Context) error {
			return u.UpdateCredentials(ctx, ref, provider.Credentials{Username: "sentinel-user", Password: "sentinel-2", Revision: "r2"})
		}, []string{"GET pods 200", "GET secrets 200", "PUT secrets 200", "PATCH pods 200"}},
		{"delete", func(ctx context.Context) error { return w.p.Delete(ctx, ref) }, []string{
			"GET pods 200", "GET secrets 200", "DELETE pods 200", "DELETE secrets 200",
		}},
	} {
		span, requests, err := w.call(t, step.op, step.do)
		must(t0(t), err)
		if got := w.short(requests); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.op, got, step.want)
		}
		if a := attributesOf(span); span.Status().Code != codes.Ok || a["provider.name"] != entry || a["provider.result"] != "ok" {
			t.Errorf("%s is %v with %v", step.op, span.Status(), a)
		}
	}
	_, requests, err := w.call(t, "get", func(ctx context.Context) error { _, err := w.p.Get(ctx, w.old(w.ref(w.request(), 1))); return err })
	expect(t, "Get of what never was", err, provider.ErrNotFound, "")
	if len(requests) != 3 || requests[0].Status().Code != codes.Error {
		t.Errorf("the proof of absence was %q", w.short(requests))
	}
}

func TestWhatFailsIsMarked(t *testing.T) {
	w := newTraced(t)
	create := func(ctx context.Context) error {
		req := w.secret()
		return w.p.Create(ctx, req, w.ref(req, 1))
	}
	post := func(resource string) func(*http.Request) bool { return on(http.MethodPost, resource) }

	w.wire.add(&fault{match: post("pods"), once: true, do: refuse(http.StatusForbidden, "Forbidden", "exceeded quota: full", nil)})
	span, requests, err := w.call(t, "create", create)
	expect(t, "Create without room", err, provider.ErrQuotaExceeded, "")
	// What a refused creation has left is taken away inside of it, too.
	if got, want := w.short(requests)[2:], []string{"POST secrets 201", "POST pods 403", "DELETE secrets 200"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	if s := requests[3]; s.Status().Code != codes.Error {
		t.Errorf("the refused request is %v", s.Status())
	}
	if s := span.Status(); s.Code != codes.Error || !strings.HasPrefix(s.Description, "quota_exceeded: create pods ") || attributesOf(span)["provider.result"] != "quota_exceeded" {
		t.Errorf("the call is %v", s)
	}

	w.wire.lose(post("secrets"))
	span, requests, err = w.call(t, "create", create)
	expect(t, "Create without an answer", err, provider.ErrTransient, provider.ReasonUnreachable)
	if s := requests[len(requests)-1].Status(); s.Code != codes.Error || s.Description != "no answer" {
		t.Errorf("the lost request is %v", s)
	}
	if span.Status().Code != codes.Error {
		t.Errorf("the call is %v", span.Status())
	}

	// A webhook may quote what it refuses.
	w.wire.add(&fault{match: post("secrets"), once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		quoted := regexp.MustCompile(`sentinel-user:\$2[./$A-Za-z0-9]+`).Find(body)
		if quoted == nil {
			t.Error("there is no hash in the Secret")
		}
		return refuse(http.StatusBadRequest, "Invalid", "denied: htpasswd is "+string(quoted)+" here", nil)(r, next)
	}})
	span, _, err = w.call(t, "create", create)
	expect(t, "Create refused by a webhook", err, provider.ErrPermanent, "")
	if want := "denied: htpasswd is … here"; !strings.Contains(span.Status().Description, want) || hidden.MatchString(err.Error()) {
		t.Errorf("the call is %v, the error %v, want %q in both", span.Status(), err, want)
	}
}

// A provider that everybody can get from otel would take whatever begins without a parent.
func TestWithoutATraceRequestsBeginNone(t *testing.T) {
	w := newT(t)
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	otel.SetTracerProvider(tp)
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	_, err := p.ListByTag(t.Context())
	must(t0(t), err)
	p.Check(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	p.Watch(ctx, func(provider.Change) { cancel() })
	must(t0(t), p.Delete(t.Context(), ref))
	if n := len(rec.Started()); n != 0 {
		t.Errorf("%d spans, the first is %s", n, rec.Started()[0].Name())
	}
}
