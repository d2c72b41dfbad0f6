package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// seen is what a server got.
type seen struct {
	uri, body string
	header    http.Header
}

func server(t *testing.T, status int) (base string, got *seen) {
	t.Helper()
	got = &seen{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got = seen{r.URL.String(), string(body), r.Header}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "sentinel-answer")
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func send(ctx context.Context, t *testing.T, rt http.RoundTripper, method, target string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader("sentinel-body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer sentinel-token")
	before := r.Clone(ctx)
	resp, err := rt.RoundTrip(r)
	if r.URL.String() != before.URL.String() || len(r.Header) != len(before.Header) {
		t.Errorf("the caller's request was changed to %v %v", r.URL, r.Header)
	}
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), nil
}

func TestARequestIsAChildOfTheSpanInItsContext(t *testing.T) {
	for _, tc := range []struct {
		method string
		status int
		want   codes.Code
	}{
		{http.MethodGet, http.StatusOK, codes.Unset},
		{http.MethodPost, http.StatusCreated, codes.Unset},
		{http.MethodDelete, http.StatusNotFound, codes.Error},
		{http.MethodPatch, http.StatusServiceUnavailable, codes.Error},
	} {
		t.Run(fmt.Sprint(tc.method, tc.status), func(t *testing.T) {
			base, got := server(t, tc.status)
			tp, rec := recording(t)
			ctx, parent := pass(t, tp)
			target := base + "/path/of/object?token=sentinel-query#sentinel-fragment"
			target = strings.Replace(target, "://", "://user:sentinel-password@", 1)
			body, err := send(ctx, t, tracing.Transport(http.DefaultTransport), tc.method, target)
			if err != nil || body != "sentinel-answer" {
				t.Fatalf("got %q, %v", body, err)
			}
			if got.uri != "/path/of/object?token=sentinel-query" || got.body != "sentinel-body" || got.header.Get("Authorization") != "Bearer sentinel-token" {
				t.Errorf("the server got %+v, want all of it", got)
			}
			s := only(t, rec)
			if s.Name() != "HTTP "+tc.method || s.SpanKind() != trace.SpanKindClient || s.Status().Code != tc.want {
				t.Errorf("span %s, %v, %v", s.Name(), s.SpanKind(), s.Status())
			}
			if s.Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("below %v, want %v", s.Parent().SpanID(), parent.SpanContext().SpanID())
			}
			a := attributesOf(s)
			if a["http.request.method"] != tc.method || a["http.response.status_code"] != fmt.Sprint(tc.status) || a["url.full"] != base+"/path/of/object" {
				t.Errorf("attributes %v", a)
			}
			if strings.Contains(everything(s), "sentinel") {
				t.Errorf("secrets in %s", everything(s))
			}
		})
	}
}

func only(t *testing.T, rec *tracetest.SpanRecorder) sdktrace.ReadOnlySpan {
	t.Helper()
	ended := rec.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans, want one", len(ended))
	}
	return ended[0]
}

// Whatever runs in the background would be a trace of its own each time. That needs a provider which would take it.
func TestWithoutAParentThereIsNoSpan(t *testing.T) {
	base, got := server(t, http.StatusOK)
	tp, rec := recording(t)
	global(t, tp)
	ended, span := tp.Tracer("test").Start(t.Context(), "ended")
	span.End()
	remote := trace.ContextWithRemoteSpanContext(t.Context(), span.SpanContext().WithRemote(true))
	before := len(rec.Started())
	for reason, ctx := range map[string]context.Context{"no span": t.Context(), "one that has ended": ended, "one of another process": remote} {
		*got = seen{}
		body, err := send(ctx, t, tracing.Transport(http.DefaultTransport), http.MethodGet, base+"/x?y=z")
		if err != nil || body != "sentinel-answer" || got.uri != "/x?y=z" {
			t.Errorf("with %s: %q, %v, the server got %+v", reason, body, err, got)
		}
		if n := len(rec.Started()); n != before {
			t.Errorf("with %s: %d spans", reason, n-before)
		}
	}
}

func TestNobodyIsToldOfOurTraces(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	base, got := server(t, http.StatusOK)
	tp, _ := recording(t)
	ctx, _ := pass(t, tp)
	if _, err := send(ctx, t, tracing.Transport(http.DefaultTransport), http.MethodGet, base); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
		if v := got.header.Get(name); v != "" {
			t.Errorf("the server got %s: %s", name, v)
		}
	}
}

func TestOfAFailureTheKindIsShown(t *testing.T) {
	tp, rec := recording(t)
	deadline, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, tc := range []struct {
		err            error
		status, typeOf string
	}{
		{errors.New("sentinel"), "no answer", "*errors.errorString"},
		{fmt.Errorf("sentinel: %w", context.Canceled), "canceled", "*errors.errorString"},
		{fmt.Errorf("sentinel: %w", deadline.Err()), "timed out", "context.deadlineExceededError"},
		{&url.Error{Op: "Get", URL: "http://sentinel", Err: &net.OpError{Op: "dial", Err: errors.New("sentinel")}}, "no answer", "net.dial"},
	} {
		rec.Reset()
		ctx, _ := pass(t, tp)
		_, err := send(ctx, t, tracing.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return nil, tc.err })), http.MethodGet, "http://host/")
		if err != tc.err {
			t.Errorf("the caller got %v, want the error as it was", err)
		}
		s := only(t, rec)
		if s.Status().Code != codes.Error || s.Status().Description != tc.status || attributesOf(s)["error.type"] != tc.typeOf {
			t.Errorf("%v: %v, %v", tc.err, s.Status(), s.Attributes())
		}
		if strings.Contains(everything(s), "sentinel") {
			t.Errorf("secrets in %s", everything(s))
		}
	}
}

// closing is a transport with connections, behind a wrapper that does not pass on the wish to close them.
type closing struct {
	roundTrip
	closed bool
}

func (c *closing) CloseIdleConnections() { c.closed = true }

type wrapping struct{ rt http.RoundTripper }

func (w wrapping) RoundTrip(r *http.Request) (*http.Response, error) { return w.rt.RoundTrip(r) }
func (w wrapping) WrappedRoundTripper() http.RoundTripper            { return w.rt }

func TestIdleConnectionsCanBeClosed(t *testing.T) {
	c := &closing{}
	client := &http.Client{Transport: tracing.Transport(wrapping{c})}
	client.CloseIdleConnections()
	if !c.closed {
		t.Error("the transport was not told")
	}
	// There is nothing to be told where nothing has connections.
	(&http.Client{Transport: tracing.Transport(c.roundTrip)}).CloseIdleConnections()
}
