package discovery

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// traced makes a server span of each request but the health check's, below the client's own where it sends a W3C
// traceparent. The span has the route's pattern, never path, query, headers or address: those are the client's. Log lines of
// the request name the span if it is recorded.
func (s *Server) traced(next handler) handler {
	var w3c propagation.TraceContext
	return func(x *exchange, r *http.Request) {
		ctx := logf.IntoContext(r.Context(), s.o.Log)
		if r.URL.Path == healthzPath {
			next(x, r.WithContext(ctx))
			return
		}
		method := knownMethod(r.Method)
		ctx, span := tracing.StartSpan(w3c.Extract(ctx, propagation.HeaderCarrier(r.Header)), method,
			trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", method)))
		defer span.End()
		if span.IsRecording() {
			defer func() { describe(span, method, x) }()
		}
		next(x, r.WithContext(ctx))
	}
}

// describe adds what is known once a request has been answered.
func describe(span trace.Span, method string, x *exchange) {
	status := x.status
	if status == 0 { // a panic; recovered answers it
		status = http.StatusInternalServerError
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if x.route != "" {
		span.SetName(method + " " + x.route)
		span.SetAttributes(attribute.String("http.route", x.route))
	}
	if status >= http.StatusInternalServerError { // a client's own mistake is no failure of ours
		span.SetStatus(codes.Error, "")
	}
}
