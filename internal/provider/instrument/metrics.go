package instrument

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// RequestRecorder takes one observation per provider call. It must be safe for concurrent use and must not block.
type RequestRecorder interface {
	// ProviderRequest records a call: the entry's name, the operation (plan, create, get, delete, list,
	// updatecredentials), the result as provider.ClassName gives it, and how long the call took.
	ProviderRequest(providerName, op, result string, d time.Duration)
}

// WithMetrics returns p with every call reported to r under the entry's name. The result implements
// provider.CredentialUpdater exactly when p does.
func WithMetrics(p provider.Provider, name string, c clock.PassiveClock, r RequestRecorder) provider.Provider {
	m := &metered{Provider: p, name: name, clock: c, recorder: r}
	if u, ok := As[provider.CredentialUpdater](p); ok {
		return &meteredUpdater{metered: m, updater: u}
	}
	return m
}

type metered struct {
	provider.Provider
	name     string
	clock    clock.PassiveClock
	recorder RequestRecorder
}

func (m *metered) Unwrap() provider.Provider { return m.Provider }

func (m *metered) record(op string, start time.Time, err error) {
	m.recorder.ProviderRequest(m.name, op, provider.ClassName(err), m.clock.Since(start))
}

func (m *metered) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	start := m.clock.Now()
	id, err := m.Provider.Plan(ctx, req)
	m.record("plan", start, err)
	return id, err
}

func (m *metered) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	start := m.clock.Now()
	err := m.Provider.Create(ctx, req, ref)
	m.record("create", start, err)
	return err
}

func (m *metered) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	start := m.clock.Now()
	inst, err := m.Provider.Get(ctx, ref)
	m.record("get", start, err)
	return inst, err
}

func (m *metered) Delete(ctx context.Context, ref provider.Ref) error {
	start := m.clock.Now()
	err := m.Provider.Delete(ctx, ref)
	m.record("delete", start, err)
	return err
}

func (m *metered) ListByTag(ctx context.Context) (provider.Listing, error) {
	start := m.clock.Now()
	listing, err := m.Provider.ListByTag(ctx)
	m.record("list", start, err)
	return listing, err
}

// meteredUpdater is a metered provider that changes credentials in place.
type meteredUpdater struct {
	*metered
	updater provider.CredentialUpdater
}

func (m *meteredUpdater) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	start := m.clock.Now()
	err := m.updater.UpdateCredentials(ctx, ref, creds)
	m.record("updatecredentials", start, err)
	return err
}
