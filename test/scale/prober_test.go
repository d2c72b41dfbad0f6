package scale

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// probeTime is how long a probe that succeeds takes.
const probeTime = 50 * time.Millisecond

// prober looks at the backend instead of the network: traffic flows where an instance runs under the very address. It
// reaches the backend past the cloud's faults, for a cloud whose API is down still forwards.
type prober struct {
	store   *fleet.Store
	backend *providertest.Backend
	direct  *providertest.Stateful

	mu     sync.Mutex
	dead   map[types.NamespacedName]bool
	worn   map[types.NamespacedName]int64 // up to which attempt instances have ceased to forward
	silent bool                           // the site that probes ask for does not answer
	probes int
}

// Probe implements health.Prober.
func (p *prober) Probe(ctx context.Context, t health.Target) health.Result {
	select {
	case <-ctx.Done():
		return health.Result{Reason: v1alpha1.ReasonTimeout, Inconclusive: true}
	case <-time.After(probeTime):
	}
	p.mu.Lock()
	p.probes++
	dead, worn, silent := p.dead[t.Key], p.worn[t.Key], p.silent
	p.mu.Unlock()
	switch snapshot := p.store.Get(t.Key); {
	case dead || snapshot == nil || snapshot.Attempt <= worn || !p.runs(ctx, snapshot, t.Endpoint):
		return health.Result{Reason: v1alpha1.ReasonDialFailed, Message: "connection refused", Latency: probeTime}
	case t.Credentials != nil && p.backend.CredentialRevision(snapshot.ProviderID) != t.Credentials.Revision:
		return health.Result{Reason: v1alpha1.ReasonProxyAuthFailed, Message: "407", Latency: probeTime}
	case silent:
		select {
		case <-ctx.Done():
			return health.Result{Reason: v1alpha1.ReasonTimeout, Inconclusive: true}
		case <-time.After(t.Probe.Timeout - probeTime):
		}
		return health.Result{Reason: v1alpha1.ReasonTimeout, Message: "no answer in time", Latency: t.Probe.Timeout}
	}
	return health.Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Latency: probeTime}
}

func (p *prober) runs(ctx context.Context, s *fleet.Proxy, at fleet.Endpoint) bool {
	inst, err := p.direct.Get(ctx, provider.Ref{ID: s.ProviderID, UID: s.UID, Attempt: s.Attempt})
	return err == nil && inst.State == provider.StateRunning && inst.IP == at.Host && inst.Port == at.Port
}

// cut makes the traffic through a Proxy die, or flow again, whatever its instance does.
func (p *prober) cut(key types.NamespacedName, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead == nil {
		p.dead = map[types.NamespacedName]bool{}
	}
	p.dead[key] = dead
}

// wear makes the instance that a Proxy has now cease to forward, for good. Another one forwards.
func (p *prober) wear(key types.NamespacedName) {
	attempt := p.store.Get(key).Attempt
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worn == nil {
		p.worn = map[types.NamespacedName]int64{}
	}
	p.worn[key] = attempt
}

// silence makes the site that is asked for through the proxies, and as the judge URL, answer no more, or again.
func (p *prober) silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

// fetch asks the same site without a proxy.
func (p *prober) fetch(ctx context.Context, _ string) error {
	p.mu.Lock()
	silent := p.silent
	p.mu.Unlock()
	takes, result := probeTime, error(nil)
	if silent {
		takes, result = 10*time.Second, errors.New("timed out")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
	}
	return result
}

func (p *prober) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probes
}
