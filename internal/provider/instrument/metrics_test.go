package instrument_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// plain answers every call with err, after a second on the clock.
type plain struct {
	clock  *clocktesting.FakePassiveClock
	err    error
	closed bool
}

func (p *plain) answer() error {
	p.clock.SetTime(p.clock.Now().Add(time.Second))
	return p.err
}

func (p *plain) Plan(context.Context, provider.CreateRequest) (string, error) {
	return "id", p.answer()
}
func (p *plain) Create(context.Context, provider.CreateRequest, provider.Ref) error {
	return p.answer()
}
func (p *plain) Delete(context.Context, provider.Ref) error { return p.answer() }
func (p *plain) Get(context.Context, provider.Ref) (*provider.Instance, error) {
	return &provider.Instance{ID: "id"}, p.answer()
}
func (p *plain) ListByTag(context.Context) (provider.Listing, error) {
	return provider.Listing{Unread: []string{"zone"}}, p.answer()
}
func (p *plain) Close() error               { p.closed = true; return nil }
func (p *plain) Target(provider.Ref) string { return "host" }

type updating struct{ *plain }

func (u updating) UpdateCredentials(context.Context, provider.Ref, provider.Credentials) error {
	return u.answer()
}

type observation struct {
	provider, op, result string
	d                    time.Duration
}

type recorder struct{ seen []observation }

func (r *recorder) ProviderRequest(p, op, result string, d time.Duration) {
	r.seen = append(r.seen, observation{p, op, result, d})
}

func newPlain(err error) *plain {
	return &plain{clock: clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0)), err: err}
}

func TestWithMetricsRecordsEveryCall(t *testing.T) {
	for _, tc := range []struct {
		reason string
		err    error
		result string
	}{
		{"success", nil, "ok"},
		{"a classified error", provider.Wrap(provider.ErrQuotaExceeded, "create", "x", "id", nil), "quota_exceeded"},
		{"an error nobody classified", errors.New("boom"), "transient"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			inner, rec := newPlain(tc.err), &recorder{}
			p := instrument.WithMetrics(updating{inner}, "exits", inner.clock, rec)
			ctx, ref := t.Context(), provider.Ref{ID: "id"}

			id, err := p.Plan(ctx, provider.CreateRequest{})
			if id != "id" || !errors.Is(err, tc.err) {
				t.Errorf("Plan = %q, %v: the answer must pass unchanged", id, err)
			}
			if err := p.Create(ctx, provider.CreateRequest{}, ref); !errors.Is(err, tc.err) {
				t.Errorf("Create = %v, want %v", err, tc.err)
			}
			if inst, err := p.Get(ctx, ref); inst == nil || !errors.Is(err, tc.err) {
				t.Errorf("Get = %v, %v", inst, err)
			}
			if err := p.Delete(ctx, ref); !errors.Is(err, tc.err) {
				t.Errorf("Delete = %v, want %v", err, tc.err)
			}
			if l, err := p.ListByTag(ctx); len(l.Unread) != 1 || !errors.Is(err, tc.err) {
				t.Errorf("ListByTag = %v, %v", l, err)
			}
			u, ok := instrument.As[provider.CredentialUpdater](p)
			if !ok {
				t.Fatal("the updater is out of reach")
			}
			if err := u.UpdateCredentials(ctx, ref, provider.Credentials{}); !errors.Is(err, tc.err) {
				t.Errorf("UpdateCredentials = %v, want %v", err, tc.err)
			}

			ops := []string{"plan", "create", "get", "delete", "list", "updatecredentials"}
			if len(rec.seen) != len(ops) {
				t.Fatalf("recorded %v, want one observation for each of %v", rec.seen, ops)
			}
			for i, op := range ops {
				if want := (observation{"exits", op, tc.result, time.Second}); rec.seen[i] != want {
					t.Errorf("observation %d = %v, want %v", i, rec.seen[i], want)
				}
			}
		})
	}
}

func TestOptionalInterfacesStayReachable(t *testing.T) {
	inner, rec := newPlain(nil), &recorder{}
	twice := instrument.WithMetrics(instrument.WithMetrics(inner, "a", inner.clock, rec), "b", inner.clock, rec)

	closer, ok := instrument.As[io.Closer](twice)
	if !ok {
		t.Fatal("io.Closer is out of reach")
	}
	if err := closer.Close(); err != nil || !inner.closed {
		t.Errorf("Close = %v, reached the provider: %v", err, inner.closed)
	}
	if target, ok := instrument.As[provider.Targeter](twice); !ok || target.Target(provider.Ref{}) != "host" {
		t.Error("provider.Targeter is out of reach")
	}
	if _, ok := instrument.As[provider.CredentialUpdater](twice); ok {
		t.Error("the decorator claims to update credentials although the provider cannot")
	}
	if _, ok := instrument.As[io.Closer](nil); ok {
		t.Error("found an io.Closer in nil")
	}
}

func TestUpdateIsCountedOnceThroughEachDecorator(t *testing.T) {
	inner, rec := newPlain(nil), &recorder{}
	p := instrument.WithMetrics(instrument.WithMetrics(updating{inner}, "in", inner.clock, rec), "out", inner.clock, rec)
	u, _ := instrument.As[provider.CredentialUpdater](p)
	if err := u.UpdateCredentials(t.Context(), provider.Ref{}, provider.Credentials{}); err != nil {
		t.Fatal(err)
	}
	if len(rec.seen) != 2 || rec.seen[0].provider != "in" || rec.seen[1].provider != "out" {
		t.Errorf("recorded %v, want one observation per decorator", rec.seen)
	}
}
