package proxy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// A pass that finds its target busy comes back after queueFirst, doubling up to queueLimit.
const queueFirst, queueLimit = 100 * time.Millisecond, 5 * time.Second

// busy reports whether a call was not made for lack of a place.
func busy(err error) bool { return provider.Reason(err) == provider.ReasonBusy }

// queue ends a pass whose target is busy; the worker is free for Proxies of other targets. That is no failure and nothing
// to tell: only another health or a lost address is written.
func (ps *pass) queue(ctx context.Context) (ctrl.Result, error) {
	ps.health()
	if ps.news() {
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	if left := provider.RetryAfter(ps.err); left > 0 {
		return after(left), nil
	}
	n := ps.r.memory.crowded(ps.key)
	return ps.again(min(queueFirst<<min(n, 10), queueLimit)), nil
}

// news reports whether the staged status says other things than before of what is offered.
func (ps *pass) news() bool {
	before := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionHealthy)
	now := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionHealthy)
	return ps.p.Status.IP != ps.base.Status.IP || !ps.p.DeletionTimestamp.IsZero() && !ps.onlyMessagesDiffer() ||
		before != nil && now != nil && (before.Status != now.Status || before.Reason != now.Reason)
}

// reserve takes the place at the target in which an instance is going to be created, before the intent is put on record:
// an intent whose Create is then refused would have to be written again. ok is false when the pass has ended instead.
func (ps *pass) reserve(ctx context.Context, id string) (res ctrl.Result, ok bool, err error) {
	err = instrument.Reserve(ctx, ps.handle.Provider, provider.Ref{ID: id, UID: string(ps.p.UID)})
	switch {
	case err == nil:
		return ctrl.Result{}, true, nil
	case !busy(err):
		res, err = ps.unavailable(ctx, err)
		return res, false, err
	}
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonReplacing, "the instance is gone; a new one is about to be created")
	res, err = ps.queue(ctx)
	return res, false, err
}
