package discovery

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// recorded makes spans of the process be kept until the test ends.
func recorded(t *testing.T) *tracetest.SpanRecorder {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	otel.SetTracerProvider(tp)
	t.Cleanup(func() {
		otel.SetTracerProvider(noop.NewTracerProvider())
		_ = tp.Shutdown(context.WithoutCancel(t.Context()))
	})
	return rec
}

func TestARequestIsASpan(t *testing.T) {
	rec := recorded(t)
	f := newFixture(t, func(o *Options) {
		leading := 0
		o.Leading = func() bool {
			if leading++; leading > 4 {
				panic("as a test")
			}
			return true
		}
	})
	f.put("a")
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	do := func(method, path, token, traceparent string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Traceparent", traceparent)
		req.Header.Set("Tracestate", "vendor=x")
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	do(http.MethodGet, "/healthz", testToken, caller)
	for _, tc := range []struct {
		method, path, token, traceparent string
		name                             string
		status                           int
	}{
		{http.MethodPost, "/v1/leases", testToken, caller, "POST /v1/leases", http.StatusCreated},
		{http.MethodPost, "/v1/leases", testToken, "", "POST /v1/leases", http.StatusCreated},
		{http.MethodPost, "/v1/leases", testToken, "nonsense", "POST /v1/leases", http.StatusCreated},
		{http.MethodDelete, "/v1/leases/secret-id", testToken, caller, "DELETE /v1/leases/{id}", http.StatusNoContent},
		{http.MethodPost, "/v1/leases", "another-SENTINEL", caller, "POST", http.StatusUnauthorized},
		{"SENTINEL", "/secret", testToken, caller, "other", http.StatusNotFound},
		{http.MethodPost, "/v1/leases", testToken, caller, "POST /v1/leases", http.StatusInternalServerError},
	} {
		before := len(rec.Ended())
		if got := do(tc.method, tc.path, tc.token, tc.traceparent); got != tc.status {
			t.Fatalf("%s %s: %d, want %d", tc.method, tc.path, got, tc.status)
		}
		spans := rec.Ended()[before:]
		if len(spans) != 1 {
			t.Fatalf("%s %s: %d spans", tc.method, tc.path, len(spans))
		}
		s := spans[0]
		if s.Name() != tc.name || s.SpanKind() != trace.SpanKindServer {
			t.Errorf("%s %s is the span %q of kind %v, want %q", tc.method, tc.path, s.Name(), s.SpanKind(), tc.name)
		}
		if got := s.Parent().IsValid(); got != (tc.traceparent == caller) {
			t.Errorf("%s with traceparent %q has the parent %v", tc.name, tc.traceparent, s.Parent())
		}
		if got := s.Status().Code == codes.Error; got != (tc.status >= 500) {
			t.Errorf("%s that ends with %d has the status %v", tc.name, tc.status, s.Status())
		}
		text := fmt.Sprint(s.Attributes())
		if !strings.Contains(text, fmt.Sprint(tc.status)) || strings.Contains(text+s.Name(), "SENTINEL") || strings.Contains(text+s.Name(), "secret") {
			t.Errorf("%s has the attributes %s", tc.name, text)
		}
	}
	if logs := f.logs.String(); !strings.Contains(logs, `"traceID"="0af7651916cd43dd8448eb211c80319c"`) {
		t.Errorf("no line names the trace:\n%s", logs)
	}
}

// Without a tracer there are no spans, whatever a client sends, and no keys on lines.
func TestNoSpansWithoutATracer(t *testing.T) {
	f := newFixture(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+"/v1/proxies", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if logs := f.logs.String(); strings.Contains(logs, "traceID") || !strings.Contains(logs, `"route"="/v1/proxies"`) {
		t.Errorf("log:\n%s", logs)
	}
}
