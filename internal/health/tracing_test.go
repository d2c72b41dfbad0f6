package health_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/health"
)

type answering health.Result

func (a answering) Probe(ctx context.Context, _ health.Target) health.Result {
	if !trace.SpanFromContext(ctx).IsRecording() {
		panic("the probe is in no span")
	}
	return health.Result(a)
}

func TestAProbeIsATrace(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	otel.SetTracerProvider(tp)
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	target := health.Target{Key: types.NamespacedName{Namespace: "ns", Name: "a"}}
	target.Probe.URL = "https://secret.example/?token=secret"
	above, end := tp.Tracer("test").Start(t.Context(), "above")
	defer end.End()
	for _, want := range []health.Result{{OK: true, Reason: "ProbeSucceeded"}, {Reason: "Timeout", Message: "no answer within 3s"}} {
		before := len(rec.Ended())
		if got := health.Traced(answering(want)).Probe(above, target); got != want {
			t.Errorf("the result is %v, not %v", got, want)
		}
		s := rec.Ended()[before]
		if s.Name() != "health.probe" || s.Parent().IsValid() || (s.Status().Code == codes.Error) == want.OK || s.Status().Description != want.Message {
			t.Errorf("span %s below %v with status %v", s.Name(), s.Parent(), s.Status())
		}
		found := map[attribute]bool{}
		for _, a := range s.Attributes() {
			found[attribute{string(a.Key), a.Value.String()}] = true
		}
		for _, a := range []attribute{{"proxy.namespace", "ns"}, {"proxy.name", "a"}, {"health.reason", want.Reason}, {"health.inconclusive", "false"}} {
			if !found[a] {
				t.Errorf("no attribute %v in %v", a, s.Attributes())
			}
		}
		if len(found) != 4 {
			t.Errorf("attributes %v", s.Attributes())
		}
	}
}

type attribute struct{ key, value string }
