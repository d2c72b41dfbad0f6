package proxy

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// pass is one look at one Proxy.
type pass struct {
	r   *Reconciler
	key types.NamespacedName
	// base is the object as read; p is changed in memory and written against base.
	base, p *v1alpha1.Proxy

	handle     registry.Handle
	configured bool
	creds      *provider.Credentials
	want       desired
	// secrets are what no text about the instance may show.
	secrets *message.Secrets
	// blocked says why nothing may be created, replaced or updated; observing and probing go on.
	blocked *blocked

	seen sight
	inst *provider.Instance
	err  error
	// listed: what was seen comes from a list, not from a Get.
	listed bool

	// unsure: the instance has been Unhealthy for too long, but perhaps through no fault of its own.
	unsure bool

	// gone says that the instance is gone without the operator's doing; "" when it is not, or was told.
	gone string

	// late: the failure in sight is of a creation that had been accepted.
	late bool

	// later is the longest wait until the next pass that something besides the step asks for; 0 for none.
	later time.Duration
}

// blocked is a reason of the Provisioned condition with its message.
type blocked struct{ reason, message string }

func (r *Reconciler) newPass(p *v1alpha1.Proxy) *pass {
	ps := &pass{r: r, key: client.ObjectKeyFromObject(p)}
	r.memory.claim(ps.key, p.UID)
	ps.reset(p)
	return ps
}

// reset starts over from p, which becomes the pass's own.
func (ps *pass) reset(p *v1alpha1.Proxy) {
	ps.base, ps.p = p.DeepCopy(), p
}

// refresh replaces what came from the cache by a live read.
func (ps *pass) refresh(ctx context.Context) error {
	live, err := ps.live(ctx)
	if err != nil {
		return err
	}
	ps.reset(live)
	return nil
}

// live reads the object from the API server. It is bounded in time: a server that hangs must not hold a worker.
func (ps *pass) live(ctx context.Context) (*v1alpha1.Proxy, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	p := &v1alpha1.Proxy{}
	return p, ps.r.Live.Get(ctx, ps.key, p)
}

// ref is the record of the Proxy's instance; ok is false when there is none.
func (ps *pass) ref() (ref provider.Ref, ok bool) {
	rec := ps.p.Status.Instance
	if rec == nil {
		return provider.Ref{}, false
	}
	return provider.Ref{
		ID: ps.p.Status.ProviderID, UID: string(ps.p.UID), Attempt: rec.Attempt, RequestedAt: rec.RequestedAt.Time,
	}, true
}

// again asks for another pass after d. The priority is set explicitly: left unset, a requeue keeps whatever priority
// the item had, and a Proxy that once was background stays background.
func (ps *pass) again(d time.Duration) ctrl.Result {
	if ps.later > 0 && ps.later < d {
		d = ps.later
	}
	return after(ps.r.jitter(d))
}

// retry asks for another pass after the n-th failure in a row, counted from 0. Nothing brings it forward when the backend
// has asked for the wait.
func (ps *pass) retry(f failure, n int) ctrl.Result {
	if f.asked {
		d := ps.r.jitter(f.wait(n))
		ps.r.memory.rest(ps.key, ps.r.Clock.Now().Add(d))
		return after(d)
	}
	res := ps.again(f.wait(n))
	ps.r.memory.waits(ps.key, ps.r.Clock.Now().Add(res.RequeueAfter))
	return res
}

// tryAgain is retry that counts. A gate knows itself how long to wait, and asking it too soon costs the backend nothing.
func (ps *pass) tryAgain(f failure) ctrl.Result {
	if f.shut {
		return ps.again(f.wait(0))
	}
	return ps.retry(f, ps.failed())
}

// failed counts an error and returns how many came before it, in a row.
func (ps *pass) failed() int { return ps.r.memory.failed(ps.key, ps.r.Clock.Now()) }

// after asks for another pass after exactly d.
func after(d time.Duration) ctrl.Result { return ctrl.Result{RequeueAfter: d, Priority: ptr.To(0)} }

// within asks for another pass after d, or sooner if something besides the step does.
func (ps *pass) within(d time.Duration) ctrl.Result {
	if ps.later > 0 && ps.later < d {
		d = ps.later
	}
	return after(d)
}

// steady ends a pass after which nothing has to happen: list, watch and probe wake the Proxy when something does.
func (ps *pass) steady() ctrl.Result {
	if ps.later > 0 {
		return ctrl.Result{RequeueAfter: ps.later, Priority: ptr.To(handler.LowPriority)}
	}
	return ctrl.Result{}
}

// poll asks for another look; the wait starts at one second and doubles up to limit while the sight stays the same.
func (ps *pass) poll(limit time.Duration) ctrl.Result {
	n := ps.r.memory.looked(ps.key, ps.seen)
	return ps.again(min(time.Second<<min(n, 10), limit))
}

// jitter spreads d by ten percent either way, so that a fleet made at once is not polled at once.
func (r *Reconciler) jitter(d time.Duration) time.Duration {
	random := r.Random
	if random == nil {
		random = rand.Float64
	}
	return d + time.Duration((random()-0.5)*0.2*float64(d))
}
