package proxy

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Providers finds a configured provider entry by name.
type Providers interface {
	Lookup(name string) (registry.Handle, bool)
}

// Health tells the verdict of the health engine about a Proxy; ok is false while it has none. It does not block.
type Health interface {
	Verdict(key types.NamespacedName) (v fleet.Verdict, ok bool)
	// Replaceable reports whether the Proxy is Unhealthy by what the engine itself has seen of exactly this subject, and
	// through no fault that most others share. unsure is true when it is Unhealthy and only that is in doubt.
	Replaceable(key types.NamespacedName, subject fleet.Subject) (replaceable, unsure bool)
}

// Observations tells what the last list of a provider showed. It does not block.
type Observations interface {
	// Seen returns uid's instance under id; ok is false when there is no recent list or it did not show it.
	Seen(providerName, uid, id string) (inst provider.Instance, ok bool)
	// Strays returns uid's instances under any other ID.
	Strays(providerName, uid, id string) []provider.Instance
}

// Fleet knows what is being replaced. It does not block.
type Fleet interface {
	// Count returns how many Proxies of a provider have an instance on record and how many are being replaced.
	Count(providerName string) fleet.Count
	// Replacing reports whether a Proxy is being replaced.
	Replacing(key types.NamespacedName) bool
}

// Leases is what of the ledger a replacement needs. It does not block.
type Leases interface {
	// Withdraw refuses further grants on key and returns how many leases are still held.
	Withdraw(key fleet.LeaseKey) (live int)
	// Readmit takes a withdrawal back.
	Readmit(key fleet.LeaseKey)
}

// Intervals are how long a pass waits before the next one.
type Intervals struct {
	// ProvisioningPoll and DeletionPoll are the longest waits between two looks; they start at one second.
	ProvisioningPoll time.Duration
	DeletionPoll     time.Duration
	// DriftPoll is the interval between two lists of a provider, hence the wait until a removed stray is gone from them.
	DriftPoll time.Duration
	// QuotaRetry is the wait after ErrQuotaExceeded.
	QuotaRetry time.Duration
	// Provisioning is how long an instance may take until it runs.
	Provisioning time.Duration
	// Drain is how long leases may hold back a replacement or a deletion.
	Drain time.Duration
}

// Reconciler reconciles Proxies. All fields but Metrics and Random are required.
type Reconciler struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// CloudInit and Auth read the Secrets of their label alone, from caches of their own.
	CloudInit client.Reader
	Auth      client.Reader

	Providers    Providers
	Health       Health
	Observations Observations
	Fleet        Fleet
	Leases       Leases
	Events       events.EventRecorder
	Metrics      Recorder
	Clock        clock.PassiveClock
	// CallTimeout bounds one backend call and the window in which a Create may be sent.
	CallTimeout time.Duration
	Intervals   Intervals
	// MaxReplacing bounds the instances of one provider that are replaced at one time.
	MaxReplacing Share
	// Random returns numbers in [0,1) that spread waits; rand.Float64 when nil.
	Random func() float64

	memory memory
}

// Reconcile runs one pass over one Proxy. It blocks for at most a few backend calls.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p := &v1alpha1.Proxy{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctx, end := instrument.WithPass(ctx)
	defer end()
	ps := r.newPass(p)
	res, err := ps.run(ctx)
	if ps.p.Status.Instance == nil {
		// Nothing came of it and nothing is on record: the place under maxInstances is for somebody else.
		r.memory.unreserve(ps.key)
	}
	log := ctrl.LoggerFrom(ctx).V(1)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// Somebody wrote in between: what this pass saw is old, so nothing of it counts.
		ps.metrics().Pass(ps.sightLabel(), PassDropped)
		log.Info("pass dropped", "seen", ps.seen, "because", err.Error())
		return ps.again(time.Second), nil
	}
	ps.metrics().Pass(ps.sightLabel(), passResult(err))
	log.Info("pass", "seen", ps.seen, "phase", ps.p.Status.Phase, "again", res.RequeueAfter.String())
	return res, err
}

func passResult(err error) string {
	if err != nil {
		return PassError
	}
	return PassOK
}

func (ps *pass) run(ctx context.Context) (ctrl.Result, error) {
	switch {
	case !ps.p.DeletionTimestamp.IsZero():
		return inSpan(ctx, spanDelete, ps.deletion)
	case ps.p.Managed():
		return inSpan(ctx, spanManaged, ps.managed)
	}
	return ps.external(ctx)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)
