package proxy

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

const (
	// A pass that finds its target busy comes back after queueFirst, doubling up to queueLimit.
	queueFirst, queueLimit = 100 * time.Millisecond, 5 * time.Second
	// sightBusy stands in memory for the looks that were not had because the target was busy.
	sightBusy sight = "busy"
)

// busy reports whether a call was not made for lack of a place.
func busy(err error) bool { return provider.Reason(err) == provider.ReasonBusy }

// queue ends a pass whose target is busy. That is no failure and nothing to tell, so only health and what the pass has
// staged are written; the worker is free for Proxies of other targets.
func (ps *pass) queue(ctx context.Context) (ctrl.Result, error) {
	ps.health()
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	n := ps.r.memory.looked(ps.key, sightBusy)
	return ps.again(min(queueFirst<<min(n, 10), queueLimit)), nil
}

// reserve takes the place at the target in which an instance is going to be created, before the intent is put on record:
// an intent whose Create is then refused would have to be written again. ok is false when the pass has ended instead.
func (ps *pass) reserve(ctx context.Context, id string) (res ctrl.Result, ok bool, err error) {
	err = instrument.Reserve(ctx, ps.handle.Provider, provider.Ref{ID: id, UID: string(ps.p.UID)})
	switch {
	case err == nil:
		return ctrl.Result{}, true, nil
	case !busy(err):
		f := ps.failureOf(err)
		ps.provisioned(metav1.ConditionFalse, f.reason, f.message)
		ps.health()
		return ps.again(f.wait(0)), false, ps.write(ctx)
	case ps.base.Status.IP == "":
		ps.p.Status = *ps.base.Status.DeepCopy() // nothing has changed for anybody
	default:
		ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonReplacing, "the instance is gone; a new one is about to be created")
	}
	res, err = ps.queue(ctx)
	return res, false, err
}
