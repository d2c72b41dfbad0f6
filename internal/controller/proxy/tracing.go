package proxy

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// Names of spans. Each pass is a trace of its own: nothing that wakes a Proxy knows of one.
const (
	spanPass    = "Reconcile Proxy"
	spanManaged = "reconcile.managed"
	spanReplace = "reconcile.replaceInstance"
	spanDelete  = "reconcile.delete"
	spanStatus  = "status.patch"
)

// traced makes each pass a trace.
type traced struct{ next reconcile.Reconciler }

func (t traced) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, span := tracing.StartSpan(ctx, spanPass, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("proxy.namespace", req.Namespace), attribute.String("proxy.name", req.Name)))
	defer span.End()
	res, err := t.next.Reconcile(ctx, req)
	if err != nil {
		span.SetStatus(codes.Error, "the pass failed") // why is in the log, and in the spans below
	}
	return res, err
}

// inSpan makes a part of a pass a span. An error is the API server's or a conflict; what a backend answers is in its own span.
func inSpan[T any](ctx context.Context, name string, do func(context.Context) (T, error)) (T, error) {
	ctx, span := tracing.Start(ctx, name)
	defer span.End()
	v, err := do(ctx)
	if err != nil {
		span.SetStatus(codes.Error, name+" failed")
	}
	return v, err
}
