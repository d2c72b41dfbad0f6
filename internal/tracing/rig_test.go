package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// recording returns a provider and what has ended of its spans.
func recording(t *testing.T, opts ...sdktrace.TracerProviderOption) (trace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(rec))...)
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp, rec
}

// global makes tp the process's provider until the test ends. Tests that do so do not run in parallel.
func global(t *testing.T, tp trace.TracerProvider) {
	t.Helper()
	otel.SetTracerProvider(tp)
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
}

// pass returns a context with a span of tp in it, as the reconciler's will be.
func pass(t *testing.T, tp trace.TracerProvider) (context.Context, trace.Span) {
	t.Helper()
	ctx, span := tp.Tracer("test").Start(t.Context(), "pass")
	t.Cleanup(func() { span.End() })
	return ctx, span
}

// everything is all that a span would show to whoever looks at it.
func everything(s sdktrace.ReadOnlySpan) string {
	out := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Links())
	for _, e := range s.Events() {
		out += fmt.Sprint(e.Name, e.Attributes)
	}
	return out
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// lines is a zap logger as the operator has it, and what it wrote.
type lines struct{ buf bytes.Buffer }

func (l *lines) logger() logr.Logger {
	return ctrlzap.New(ctrlzap.WriteTo(&l.buf), ctrlzap.JSONEncoder(), ctrlzap.Level(zap.DebugLevel), ctrlzap.RawZapOpts(zap.AddCaller()))
}

// text is what was written, without times.
func (l *lines) text(t *testing.T) string {
	t.Helper()
	out := ""
	for _, line := range l.all(t) {
		delete(line, "ts")
		s, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		out += string(s) + "\n"
	}
	return out
}

// all parses the lines, and fails if one has a key twice: to a map the second would look like the only one.
func (l *lines) all(t *testing.T) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.buf.String()) {
		seen := map[string]any{}
		d := json.NewDecoder(strings.NewReader(line))
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			if _, twice := seen[key.(string)]; twice {
				t.Errorf("key %s is repeated in %s", key, line)
			}
			seen[key.(string)] = value
		}
		out = append(out, seen)
	}
	return out
}
