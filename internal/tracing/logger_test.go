package tracing_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

func TestLinesNameTheInnermostSpanOnce(t *testing.T) {
	tp, _ := recording(t)
	ctx, root := pass(t, tp)
	var out lines
	ctx = logf.IntoContext(ctx, out.logger())
	outer, first := tracing.Start(ctx, "outer")
	defer first.End()
	// What a caller gives its logger between two spans must outlive the second.
	between := logf.IntoContext(outer, logf.FromContext(outer).WithName("named").WithValues("key", "value"))
	inner, second := tracing.Start(between, "inner")
	defer second.End()
	innermost, third := tracing.Start(inner, "innermost")
	defer third.End()

	logf.FromContext(innermost).Info("deep", "own", 1)
	logf.FromContext(inner).WithName("more").WithValues("late", true).Error(errors.New("boom"), "nested")
	logf.FromContext(outer).Info("flat")
	logf.FromContext(ctx).Info("before")

	got := out.all(t)
	for i, want := range []trace.Span{third, second, first} {
		if got[i]["traceID"] != root.SpanContext().TraceID().String() || got[i]["spanID"] != want.SpanContext().SpanID().String() {
			t.Errorf("line %v, want the IDs of %v", got[i], want.SpanContext().SpanID())
		}
		if caller, _ := got[i]["caller"].(string); !strings.HasPrefix(caller, "tracing/logger_test.go:") {
			t.Errorf("line %v, want its caller in this file", got[i])
		}
	}
	if got[0]["key"] != "value" || got[0]["logger"] != "named" || got[0]["own"] != 1.0 {
		t.Errorf("line %v lost what the logger or the call had", got[0])
	}
	if got[1]["logger"] != "named.more" || got[1]["late"] != true || got[1]["error"] != "boom" {
		t.Errorf("line %v lost what the logger or the call had", got[1])
	}
	if _, ok := got[2]["key"]; ok {
		t.Errorf("line %v has what was added later", got[2])
	}
	if _, ok := got[3]["traceID"]; ok {
		t.Errorf("line %v names a span that began later", got[3])
	}
}

func TestTheLevelOfALoggerIsKept(t *testing.T) {
	tp, _ := recording(t)
	ctx, _ := pass(t, tp)
	var out lines // writes up to level 1
	ctx = logf.IntoContext(ctx, out.logger().V(1))
	ctx, span := tracing.Start(ctx, "span")
	defer span.End()
	logf.FromContext(ctx).Info("written")
	logf.FromContext(ctx).V(1).Info("too much")
	if got := out.all(t); len(got) != 1 || got[0]["level"] != "debug" {
		t.Errorf("lines %v, want one of level 1", got)
	}
}

func TestLogsAreUnchangedUnlessASpanIsRecorded(t *testing.T) {
	write := func(ctx context.Context) { logf.FromContext(ctx).WithValues("a", 1).Info("line", "b", 2) }
	var plain lines
	write(logf.IntoContext(t.Context(), plain.logger()))
	want := plain.text(t)

	unsampled, _ := recording(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, tc := range []struct {
		reason string
		tp     trace.TracerProvider
	}{
		{"nothing is configured", noop.NewTracerProvider()},
		{"the trace is not sampled, so nobody can look it up", unsampled},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var out lines
			ctx, root := tc.tp.Tracer("test").Start(logf.IntoContext(t.Context(), out.logger()), "pass")
			defer root.End()
			ctx, span := tracing.Start(ctx, "span")
			defer span.End()
			write(ctx)
			if got := out.text(t); got != want {
				t.Errorf("wrote\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestALoggerThatDiscardsStaysOne(t *testing.T) {
	tp, _ := recording(t)
	ctx, _ := pass(t, tp)
	ctx, span := tracing.Start(logf.IntoContext(ctx, logr.Discard()), "span")
	defer span.End()
	if log := logf.FromContext(ctx); log.GetSink() != nil {
		t.Errorf("the logger writes to %T", log.GetSink())
	}
}

// shouting is a sink that others put beneath the IDs.
type shouting struct{ logr.LogSink }

func (s shouting) Info(level int, msg string, kv ...any) {
	s.LogSink.Info(level, strings.ToUpper(msg), kv...)
}

func (s shouting) WithValues(kv ...any) logr.LogSink { return shouting{s.LogSink.WithValues(kv...)} }

func TestWhatIsPutBeneathKeepsTheIDsOnce(t *testing.T) {
	tp, _ := recording(t)
	ctx, _ := pass(t, tp)
	var out lines
	ctx = logf.IntoContext(ctx, out.logger())
	outer, first := tracing.Start(ctx, "outer")
	defer first.End()
	wrapped := tracing.Beneath(outer, func(sink logr.LogSink) logr.LogSink { return shouting{sink} })
	inner, second := tracing.Start(wrapped, "inner")
	defer second.End()
	logf.FromContext(inner).Info("deep")
	logf.FromContext(wrapped).Info("flat")
	logf.FromContext(tracing.Beneath(logf.IntoContext(t.Context(), out.logger()), func(sink logr.LogSink) logr.LogSink { return shouting{sink} })).Info("bare")
	got := out.all(t) // reading them fails where a key stands twice
	for i, want := range []struct{ msg, span string }{
		{"DEEP", second.SpanContext().SpanID().String()}, {"FLAT", first.SpanContext().SpanID().String()}, {"BARE", ""},
	} {
		if id, _ := got[i]["spanID"].(string); got[i]["msg"] != want.msg || id != want.span {
			t.Errorf("line %v, want %s of span %q", got[i], want.msg, want.span)
		}
	}
	nothing := logf.IntoContext(t.Context(), logr.Discard())
	if tracing.Beneath(nothing, func(logr.LogSink) logr.LogSink { t.Error("wrapped"); return nil }) != nothing {
		t.Error("a logger that discards everything was changed")
	}
}
