package tracing

import (
	"context"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// The keys of log lines. They are written as controller-runtime writes reconcileID, not as trace_id.
const (
	keyTraceID = "traceID"
	keySpanID  = "spanID"
)

// withIDs returns ctx with its logger made to name the span.
func withIDs(ctx context.Context, sc trace.SpanContext) context.Context {
	log := logf.FromContext(ctx)
	sink := log.GetSink()
	if sink == nil {
		return ctx // it discards everything
	}
	t := &traced{LogSink: deeper(sink, 1), ids: []any{keyTraceID, sc.TraceID().String(), keySpanID, sc.SpanID().String()}}
	if above, ok := sink.(*traced); ok {
		t.LogSink = above.LogSink
	}
	return logf.IntoContext(ctx, log.WithSink(t))
}

// Beneath returns ctx with wrap around the sink of its logger, below the IDs of a span: those that start spans later find them
// where they are. It does nothing to a logger that discards everything.
func Beneath(ctx context.Context, wrap func(logr.LogSink) logr.LogSink) context.Context {
	log := logf.FromContext(ctx)
	sink := log.GetSink()
	if sink == nil {
		return ctx
	}
	if above, ok := sink.(*traced); ok {
		return logf.IntoContext(ctx, log.WithSink(&traced{wrap(above.LogSink), above.ids}))
	}
	return logf.IntoContext(ctx, log.WithSink(wrap(sink)))
}

// traced adds a span's IDs to every line of the sink below. Given to that sink with WithValues, they could not be taken
// back: zap writes a key twice that a nested span adds once more, and to start again from the logger before the first span
// would lose the names and values that it was given since.
type traced struct {
	logr.LogSink
	ids []any
}

// Init does nothing: the sink below has long been in use.
func (*traced) Init(logr.RuntimeInfo) {}

func (t *traced) Info(level int, msg string, keysAndValues ...any) {
	t.LogSink.Info(level, msg, t.with(keysAndValues)...)
}

func (t *traced) Error(err error, msg string, keysAndValues ...any) {
	t.LogSink.Error(err, msg, t.with(keysAndValues)...)
}

// with returns the IDs and a line's values, in a slice that is nobody else's. A value that is missing stays the last one.
func (t *traced) with(keysAndValues []any) []any {
	return append(t.ids[:len(t.ids):len(t.ids)], keysAndValues...)
}

func (t *traced) WithValues(keysAndValues ...any) logr.LogSink {
	return &traced{t.LogSink.WithValues(keysAndValues...), t.ids}
}

func (t *traced) WithName(name string) logr.LogSink {
	return &traced{t.LogSink.WithName(name), t.ids}
}

// WithCallDepth lets lines name their own caller.
func (t *traced) WithCallDepth(depth int) logr.LogSink {
	return &traced{deeper(t.LogSink, depth), t.ids}
}

// deeper tells a sink how many frames there are between it and whoever logs.
func deeper(sink logr.LogSink, frames int) logr.LogSink {
	if s, ok := sink.(logr.CallDepthLogSink); ok {
		return s.WithCallDepth(frames)
	}
	return sink
}
