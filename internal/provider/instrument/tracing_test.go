package instrument_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// recording returns a context with a span in it, and what ends of those below.
func recording(t *testing.T) (context.Context, trace.Span, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	ctx, span := tp.Tracer("test").Start(t.Context(), "pass")
	t.Cleanup(func() {
		span.End()
		_ = tp.Shutdown(context.Background())
	})
	return ctx, span, rec
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// everyCall makes each call of a provider that leads to its backend.
func everyCall(ctx context.Context, t *testing.T, p provider.Provider, want error) {
	t.Helper()
	secret := provider.Credentials{Username: "sentinel-user", Password: "sentinel-password"}
	req := provider.CreateRequest{CloudInit: "sentinel-cloud-init", Credentials: &secret}
	ref := provider.Ref{ID: "zones/a/exit", UID: "uid"}
	inst, getErr := p.Get(ctx, ref)
	listing, listErr := p.ListByTag(ctx)
	if inst == nil || inst.ID != "id" || len(listing.Unread) != 1 {
		t.Errorf("Get = %v, ListByTag = %v: the answers must pass unchanged", inst, listing)
	}
	u, ok := instrument.As[provider.CredentialUpdater](p)
	if !ok {
		t.Fatal("the updater is out of reach")
	}
	for op, err := range map[string]error{
		"get": getErr, "list": listErr, "create": p.Create(ctx, req, ref), "delete": p.Delete(ctx, ref),
		"update": u.UpdateCredentials(ctx, ref, secret),
	} {
		if err != want {
			t.Errorf("%s = %v, want %v as it was", op, err, want)
		}
	}
}

func TestWithTracingMakesASpanOfEveryCall(t *testing.T) {
	wrap := func(class error) error {
		return provider.Wrap(class, "get", "exits", "zones/a/exit", errors.New("what happened")).WithReason("Why")
	}
	for _, tc := range []struct {
		reason string
		err    error
		result string
		status sdktrace.Status
	}{
		{"success", nil, "ok", sdktrace.Status{Code: codes.Ok}},
		{"absence is what a deletion waits for", wrap(provider.ErrNotFound), "not_found", sdktrace.Status{Code: codes.Ok}},
		{"quota", wrap(provider.ErrQuotaExceeded), "quota_exceeded", sdktrace.Status{Code: codes.Error, Description: "quota_exceeded: what happened"}},
		{"transient", wrap(provider.ErrTransient), "transient", sdktrace.Status{Code: codes.Error, Description: "transient: what happened"}},
		{"permanent", wrap(provider.ErrPermanent), "permanent", sdktrace.Status{Code: codes.Error, Description: "permanent: what happened"}},
		{"conflict", wrap(provider.ErrConflict), "conflict", sdktrace.Status{Code: codes.Error, Description: "conflict: what happened"}},
		{"denied", wrap(provider.ErrDenied), "denied", sdktrace.Status{Code: codes.Error, Description: "denied: what happened"}},
		{"a text that nobody has cleaned", errors.New("sentinel"), "transient", sdktrace.Status{Code: codes.Error, Description: "transient"}},
		{"one around a clean one", fmt.Errorf("sentinel: %w", wrap(provider.ErrDenied)), "denied", sdktrace.Status{Code: codes.Error, Description: "denied: what happened"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			ctx, parent, rec := recording(t)
			everyCall(ctx, t, instrument.WithTracing(updating{newPlain(tc.err)}, "exits"), tc.err)

			names := map[string]bool{}
			for _, s := range rec.Ended() {
				names[s.Name()] = true
				want := map[string]string{"provider.name": "exits", "provider.id": "zones/a/exit", "provider.result": tc.result}
				if s.Name() == "provider.list" {
					delete(want, "provider.id")
				}
				if got := attributesOf(s); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s has %v, want %v", s.Name(), got, want)
				}
				if s.Status() != tc.status || len(s.Events()) != 0 {
					t.Errorf("%s is %v with %v, want %v", s.Name(), s.Status(), s.Events(), tc.status)
				}
				if s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != parent.SpanContext().SpanID() {
					t.Errorf("%s is %v, below %v", s.Name(), s.SpanKind(), s.Parent().SpanID())
				}
			}
			for _, op := range []string{"create", "get", "delete", "list", "update_credentials"} {
				if !names["provider."+op] {
					t.Errorf("no span for %s", op)
				}
			}
			if n := len(rec.Ended()); n != 5 {
				t.Errorf("%d spans, want 5", n)
			}
		})
	}
}

// looking notes which context it is called with.
type looking struct {
	*plain
	ctx context.Context
}

func (l *looking) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	l.ctx = ctx
	return l.plain.Get(ctx, ref)
}

func TestAProviderIsCalledInsideOfItsSpan(t *testing.T) {
	ctx, _, rec := recording(t)
	line := ""
	ctx = logf.IntoContext(ctx, funcr.New(func(_, args string) { line = args }, funcr.Options{}))
	inner := &looking{plain: newPlain(nil)}
	if _, err := instrument.WithTracing(inner, "exits").Get(ctx, provider.Ref{}); err != nil {
		t.Fatal(err)
	}
	span := rec.Ended()[0].SpanContext()
	if trace.SpanContextFromContext(inner.ctx).SpanID() != span.SpanID() {
		t.Error("requests would be tied to another span")
	}
	logf.FromContext(inner.ctx).Info("line")
	if !strings.Contains(line, `"traceID"="`+span.TraceID().String()+`" "spanID"="`+span.SpanID().String()+`"`) {
		t.Errorf("the line %s does not name the span", line)
	}
}

// asking is a provider whose Plan asks a target, if the request names a zone.
type asking struct{ *plain }

func (asking) PlanTarget(req provider.CreateRequest) string { return req.Placement.Zone }

func TestAPlanThatAsksNobodyHasNoSpan(t *testing.T) {
	for reason, p := range map[string]provider.Provider{"one that never asks": newPlain(nil), "one that does not ask for this": asking{newPlain(nil)}} {
		ctx, _, rec := recording(t)
		if id, err := instrument.WithTracing(p, "exits").Plan(ctx, provider.CreateRequest{}); id != "id" || err != nil {
			t.Errorf("%s: Plan = %q, %v", reason, id, err)
		}
		if n := len(rec.Started()); n != 1 {
			t.Errorf("%s: %d spans, want that of the pass alone", reason, n)
		}
	}
}

func TestAPlanThatAsksHasASpan(t *testing.T) {
	full := provider.Wrap(provider.ErrQuotaExceeded, "plan", "exits", "", errors.New("full"))
	for _, tc := range []struct {
		reason string
		err    error
		attrs  map[string]string
		status sdktrace.Status
	}{
		{"what it came to", nil, map[string]string{"provider.name": "exits", "provider.result": "ok", "provider.id": "id"}, sdktrace.Status{Code: codes.Ok}},
		{"without an ID where there is none", full, map[string]string{"provider.name": "exits", "provider.result": "quota_exceeded"},
			sdktrace.Status{Code: codes.Error, Description: "quota_exceeded: full"}},
	} {
		ctx, parent, rec := recording(t)
		// Behind another decorator, as it is in the operator.
		p := instrument.WithTracing(instrument.WithMetrics(asking{newPlain(tc.err)}, "exits", newPlain(nil).clock, &recorder{}), "exits")
		if _, err := p.Plan(ctx, provider.CreateRequest{Placement: provider.Placement{Zone: "a"}}); err != tc.err {
			t.Errorf("%s: Plan: %v, want %v", tc.reason, err, tc.err)
		}
		if n := len(rec.Ended()); n != 1 {
			t.Fatalf("%s: %d spans, want one", tc.reason, n)
		}
		s := rec.Ended()[0]
		if s.Name() != "provider.plan" || s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("%s: %s, %v, below %v", tc.reason, s.Name(), s.SpanKind(), s.Parent().SpanID())
		}
		if got := attributesOf(s); fmt.Sprint(got) != fmt.Sprint(tc.attrs) || s.Status() != tc.status {
			t.Errorf("%s: %v with %v, want %v with %v", tc.reason, s.Status(), got, tc.status, tc.attrs)
		}
	}
}

// A backend may quote what it was given.
func TestASpanHidesKnownSecrets(t *testing.T) {
	ctx, _, rec := recording(t)
	ctx = instrument.WithSecrets(ctx, message.NewSecrets([]string{"sentinel-password"}, []string{"#cloud-config sentinel-document"}))
	quoting := provider.Wrap(provider.ErrPermanent, "create", "exits", "id", errors.New("bad: sentinel-password in #cloud-config sentinel-document"))
	inner := &looking{plain: newPlain(quoting)}
	_, _ = instrument.WithTracing(inner, "exits").Get(ctx, provider.Ref{})
	if got := rec.Ended()[0].Status().Description; strings.Contains(got, "sentinel") || !strings.HasPrefix(got, "permanent: bad: ") {
		t.Errorf("the span says %q", got)
	}
	if got := tracing.Hide(inner.ctx, "sentinel-password"); strings.Contains(got, "sentinel") {
		t.Errorf("spans below would say %q", got)
	}
}

func TestWhatTheGuardRefusesHasNoSpan(t *testing.T) {
	ctx, _, rec := recording(t)
	inner := newPlain(provider.Wrap(provider.ErrTransient, "get", "exits", "id", nil).WithReason(provider.ReasonUnreachable))
	p := instrument.WithGuard(instrument.WithTracing(inner, "exits"), "exits", inner.clock)
	for range 3 {
		if _, err := p.Get(ctx, provider.Ref{}); provider.Reason(err) != provider.ReasonUnreachable {
			t.Fatalf("Get = %v, want it unreachable", err)
		}
	}
	if n := len(rec.Ended()); n != 1 {
		t.Errorf("%d spans, want one for the only call that was made", n)
	}
}

func TestTracingHidesNothingOptional(t *testing.T) {
	inner := newPlain(nil)
	p := instrument.WithTracing(inner, "exits")
	if _, ok := instrument.As[provider.CredentialUpdater](p); ok {
		t.Error("the decorator claims to update credentials although the provider cannot")
	}
	if target, ok := instrument.As[provider.Targeter](p); !ok || target.Target(provider.Ref{}) != "host" {
		t.Error("provider.Targeter is out of reach")
	}
	if closer, ok := instrument.As[io.Closer](p); !ok || closer.Close() != nil || !inner.closed {
		t.Error("io.Closer is out of reach")
	}
}
