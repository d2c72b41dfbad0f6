package proxy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// removeStrays deletes instances of this Proxy that a list showed under other IDs than the recorded one. The order is the
// safety: the list came first, then the record is read live, then the recorded instance is asked for; only if that one
// exists is another one surplus.
func (ps *pass) removeStrays(ctx context.Context) (ctrl.Result, error) {
	ref, ok := ps.ref()
	if !ok || len(ps.r.Observations.Strays(ps.handle.Name, ref.UID, ref.ID)) == 0 {
		return ps.steady(), nil
	}
	strays := ps.r.Observations.Strays(ps.handle.Name, ref.UID, ref.ID)
	live := &v1alpha1.Proxy{}
	if err := ps.r.Live.Get(ctx, ps.key, live); err != nil {
		return ctrl.Result{}, err
	}
	if live.UID != ps.p.UID || live.ResourceVersion != ps.p.ResourceVersion {
		return ctrl.Result{}, conflict(ps.key.Name, "the object changed since this pass read it")
	}
	if !ps.recordedExists(ctx, ref) {
		return ps.poll(ps.r.Intervals.ProvisioningPoll), nil
	}
	for _, inst := range strays {
		if inst.State == provider.StateDeleting {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("WARNING: deleting an instance of this Proxy that is not the one on record",
			"provider", ps.handle.Name, "providerID", inst.ID, "attempt", inst.Marks.Attempt, "recorded", ref.ID)
		if err := ps.delete(ctx, inst); err != nil {
			return ps.retry(ps.failureOf(err), ps.r.memory.failed(ps.key)), nil
		}
	}
	return ps.again(ps.r.Intervals.DriftPoll), nil
}

// recordedExists asks the backend for the instance on record.
func (ps *pass) recordedExists(ctx context.Context, ref provider.Ref) bool {
	ps.get(ctx, ref)
	return ps.err == nil && ps.inst.Identity != "" && ps.inst.Marks.Attempt == ref.Attempt
}
