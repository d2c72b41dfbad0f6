package tracing_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

func TestASpanIsAChildOfTheOneInTheContext(t *testing.T) {
	tp, rec := recording(t)
	ctx, parent := pass(t, tp)
	ctx, outer := tracing.Start(ctx, "outer", attribute.String("key", "value"))
	_, inner := tracing.StartSpan(ctx, "inner", trace.WithSpanKind(trace.SpanKindClient))
	inner.End()
	outer.End()

	ended := rec.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans ended, want 2", len(ended))
	}
	in, out := ended[0], ended[1]
	if in.Name() != "inner" || in.SpanKind() != trace.SpanKindClient || in.Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("inner is %q, %v, below %v", in.Name(), in.SpanKind(), in.Parent().SpanID())
	}
	if out.Name() != "outer" || out.SpanKind() != trace.SpanKindInternal || out.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("outer is %q, %v, below %v", out.Name(), out.SpanKind(), out.Parent().SpanID())
	}
	if attributesOf(out)["key"] != "value" {
		t.Errorf("outer has %v", out.Attributes())
	}
}

func TestATraceBeginsWithTheGlobalProvider(t *testing.T) {
	tp, rec := recording(t)
	global(t, tp)

	_, root := tracing.Start(t.Context(), "root")
	root.End()
	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	_, served := tracing.Start(trace.ContextWithRemoteSpanContext(t.Context(), caller), "served")
	served.End()

	ended := rec.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans ended, want 2: one without a parent, one whose parent is somebody else's", len(ended))
	}
	if ended[0].Parent().IsValid() {
		t.Errorf("root has the parent %v", ended[0].Parent())
	}
	if ended[1].Parent().SpanID() != caller.SpanID() || ended[1].SpanContext().TraceID() != caller.TraceID() {
		t.Errorf("what was served is below %v, want the caller's trace to go on", ended[1].Parent())
	}
}

func TestWithoutAProviderNothingIsRecorded(t *testing.T) {
	_, span := tracing.Start(t.Context(), "nothing")
	defer span.End()
	if span.IsRecording() || span.SpanContext().IsValid() {
		t.Errorf("span %v, want none", span.SpanContext())
	}
}

func TestWhatIsNotSampledStaysSoBelow(t *testing.T) {
	tp, rec := recording(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	ctx, _ := pass(t, tp)
	_, span := tracing.Start(ctx, "child")
	span.End()
	if n := len(rec.Ended()); n != 0 {
		t.Errorf("%d spans recorded, want none", n)
	}
}
