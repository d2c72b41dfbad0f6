package instrument

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// Attributes of a call's span.
const (
	// AttrProvider is the entry's name.
	AttrProvider = attribute.Key("provider.name")
	// AttrID is the instance's ID; a list has none.
	AttrID = attribute.Key("provider.id")
	// AttrResult is what provider.ClassName makes of the answer.
	AttrResult = attribute.Key("provider.result")
)

// WithTracing returns p with a client span around each call: provider.create, provider.get, provider.delete, provider.list
// and provider.update_credentials, and provider.plan where that asks a target (see provider.PlanTargeter); elsewhere Plan does
// nothing that would show. The provider gets a context with the span and with a logger that names it (see tracing.StartSpan), so
// requests and log lines of the call can be tied to it. A plan's span has the ID that came of it, if one did.
//
// The status is Ok also for ErrNotFound, which is what a deletion is polled for. Any other error shows its class and, if it
// is a *provider.Error, what happened, without what WithSecrets has told of: a backend may quote what it was given. Spans below
// find the same with tracing.Hide. The result implements provider.CredentialUpdater exactly when p does.
func WithTracing(p provider.Provider, name string) provider.Provider {
	t := &traced{Provider: p, name: name}
	t.planner, _ = As[provider.PlanTargeter](p)
	if u, ok := As[provider.CredentialUpdater](p); ok {
		return &tracedUpdater{traced: t, updater: u}
	}
	return t
}

type traced struct {
	provider.Provider
	name    string
	planner provider.PlanTargeter // nil: Plan asks nobody
}

func (t *traced) Unwrap() provider.Provider { return t.Provider }

func (t *traced) Plan(ctx context.Context, req provider.CreateRequest) (id string, err error) {
	if t.planner == nil || t.planner.PlanTarget(req) == "" {
		return t.Provider.Plan(ctx, req)
	}
	err = t.call(ctx, "plan", "", func(ctx context.Context) error {
		if id, err = t.Provider.Plan(ctx, req); err == nil {
			trace.SpanFromContext(ctx).SetAttributes(AttrID.String(id))
		}
		return err
	})
	return id, err
}

func (t *traced) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	return t.call(ctx, "create", ref.ID, func(ctx context.Context) error { return t.Provider.Create(ctx, req, ref) })
}

func (t *traced) Get(ctx context.Context, ref provider.Ref) (inst *provider.Instance, err error) {
	err = t.call(ctx, "get", ref.ID, func(ctx context.Context) error { inst, err = t.Provider.Get(ctx, ref); return err })
	return inst, err
}

func (t *traced) Delete(ctx context.Context, ref provider.Ref) error {
	return t.call(ctx, "delete", ref.ID, func(ctx context.Context) error { return t.Provider.Delete(ctx, ref) })
}

func (t *traced) ListByTag(ctx context.Context) (listing provider.Listing, err error) {
	err = t.call(ctx, "list", "", func(ctx context.Context) error { listing, err = t.Provider.ListByTag(ctx); return err })
	return listing, err
}

func (t *traced) call(ctx context.Context, op, id string, do func(context.Context) error) error {
	attrs := []attribute.KeyValue{AttrProvider.String(t.name)}
	if id != "" {
		attrs = append(attrs, AttrID.String(id))
	}
	if secrets, ok := ctx.Value(secretsKey{}).(*message.Secrets); ok {
		ctx = tracing.Hiding(ctx, secrets.Hide)
	}
	ctx, span := tracing.StartSpan(ctx, "provider."+op, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	defer span.End()
	err := do(ctx)
	span.SetAttributes(AttrResult.String(provider.ClassName(err)))
	if class := provider.Class(err); class == nil || class == provider.ErrNotFound {
		span.SetStatus(codes.Ok, "")
	} else {
		span.SetStatus(codes.Error, tracing.Hide(ctx, shown(err)))
	}
	return err
}

// shown is what a span says of an error.
func shown(err error) string {
	class := provider.ClassName(err)
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return class + ": " + e.Err.Error()
	}
	return class
}

// tracedUpdater is a traced provider that changes credentials in place.
type tracedUpdater struct {
	*traced
	updater provider.CredentialUpdater
}

func (t *tracedUpdater) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return t.call(ctx, "update_credentials", ref.ID, func(ctx context.Context) error { return t.updater.UpdateCredentials(ctx, ref, creds) })
}
