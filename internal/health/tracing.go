package health

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// Traced returns next with a trace of its own, the one span health.probe, for each probe. It names the proxy and what the
// probe came to, not where it went: the URL may hold a token. Nothing of it goes to the proxy or the target. A fleet makes
// thousands of probes a minute, so it is for those who ask for it.
func Traced(next Prober) Prober { return traced{next} }

type traced struct{ next Prober }

func (p traced) Probe(ctx context.Context, t Target) Result {
	ctx, span := tracing.StartSpan(ctx, "health.probe", trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("proxy.namespace", t.Key.Namespace), attribute.String("proxy.name", t.Key.Name)))
	defer span.End()
	r := p.next.Probe(ctx, t)
	span.SetAttributes(attribute.String("health.reason", r.Reason), attribute.Bool("health.inconclusive", r.Inconclusive))
	if !r.OK {
		span.SetStatus(codes.Error, r.Message)
	}
	return r
}
