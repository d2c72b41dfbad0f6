// Package tracing starts spans, and ties log lines and HTTP requests to them.
//
// Everything here follows the tracer provider of the span in the context, and otel's global one where there is none. As
// long as nobody has installed one, spans are no-ops and loggers stay as they are.
//
// Secrets (credentials, cloud-init, tokens) must reach no name, attribute, event or status of a span.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scope names what made a span.
const scope = "github.com/egress-proxies/egress-proxies-operator/internal/tracing"

// Start starts an internal span with attributes; see StartSpan.
func Start(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return StartSpan(ctx, name, trace.WithAttributes(attrs...))
}

// StartSpan starts a span below the one in ctx, or a trace of its own where there is none. The caller ends the span. It
// does not block.
//
// The context returned carries the span and, if the span is recorded, ctx's logger with the keys traceID and spanID on
// every line; those of a span further up are replaced. What is not recorded cannot be looked up, so it gets no keys.
func StartSpan(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := tracerOf(ctx).Start(ctx, name, opts...)
	if span.IsRecording() {
		ctx = withIDs(ctx, span.SpanContext())
	}
	return ctx, span
}

// tracerOf returns the tracer that the span in ctx was made with. One that came in from another process, or none, was made
// with no tracer of ours.
func tracerOf(ctx context.Context) trace.Tracer {
	parent := trace.SpanFromContext(ctx)
	if sc := parent.SpanContext(); sc.IsValid() && !sc.IsRemote() {
		return parent.TracerProvider().Tracer(scope)
	}
	return otel.GetTracerProvider().Tracer(scope)
}
