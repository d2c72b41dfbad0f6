package tracing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns next with a client span "HTTP <method>" around each request, from before the first byte until the
// answer's body has been read or closed.
//
//   - A request whose context has no recorded span passes as if Transport was not there, so that watches, renewals of tokens
//     and the like do not become traces of their own.
//   - URLs are shown without user, query and fragment, which can hold signatures. Of a request without an answer only the
//     kind of failure is shown: its text is for those who can tell what in it is secret. next gets the request whole, and
//     the caller the error.
//   - Requests are sent as they are, without a traceparent: the API server starts a trace of its own whatever it says, and
//     nobody else is told about ours.
func Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, traced: otelhttp.NewTransport(unveiled{next},
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()), // requests are counted by whoever knows what they are for
	)}
}

type transport struct {
	next   http.RoundTripper
	traced http.RoundTripper
}

// RoundTrip hides from the instrumentation what it would write into the span, and undoes that for the caller.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() || r.URL == nil {
		return t.next.RoundTrip(r)
	}
	x := &exchange{url: r.URL}
	shown := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	shown.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path, RawPath: r.URL.RawPath}
	resp, err := t.traced.RoundTrip(shown)
	if x.err != nil {
		return nil, x.err
	}
	return resp, err
}

// WrappedRoundTripper returns what client-go looks for behind wrappers.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections closes those of the transport below, also behind client-go's wrappers, which do not pass it on.
func (t *transport) CloseIdleConnections() {
	for rt := t.next; rt != nil; {
		if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
			return
		}
		w, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			return
		}
		rt = w.WrappedRoundTripper()
	}
}

// exchange is what the two sides of the instrumentation have to tell each other about one request.
type exchange struct {
	url *url.URL
	err error
}

type exchangeKey struct{}

// unveiled is the far side: it sends the request as the caller meant it.
type unveiled struct{ next http.RoundTripper }

func (u unveiled) RoundTrip(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return u.next.RoundTrip(r)
	}
	whole := r.WithContext(r.Context())
	whole.URL = x.url
	resp, err := u.next.RoundTrip(whole)
	if err != nil {
		x.err = err
		return nil, veiled{err}
	}
	return resp, nil
}

// veiled is an error of which the kind can be told, and not the text.
type veiled struct{ err error }

func (v veiled) Error() string {
	if errors.Is(v.err, context.Canceled) {
		return "canceled"
	}
	if timeout, ok := errors.AsType[net.Error](v.err); ok && timeout.Timeout() {
		return "timed out"
	}
	return "no answer"
}

// ErrorType is the attribute error.type: which step of a connection failed, or else the type of the innermost cause.
func (v veiled) ErrorType() string {
	if op, ok := errors.AsType[*net.OpError](v.err); ok {
		return "net." + op.Op
	}
	err := v.err
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}
