package proxy

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// removeStrays deletes instances of this Proxy that a list showed under other IDs than the recorded one. The order is the
// safety: the list came first, then the record is read live, then the recorded instance is asked for; only if that one
// exists is another one surplus.
func (ps *pass) removeStrays(ctx context.Context) (ctrl.Result, error) {
	ref, ok := ps.ref()
	if !ok {
		return ps.steady(), nil
	}
	strays := ps.strays(ref)
	if len(strays) == 0 {
		ps.r.memory.succeeded(ps.key)
		return ps.steady(), nil
	}
	live, err := ps.live(ctx)
	if err != nil {
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
		if err := ps.delete(ctx, inst); busy(err) {
			ps.err = err
			return ps.queue(ctx)
		} else if err != nil {
			return ps.retry(ps.failureOf(err), ps.failed()), nil
		}
	}
	return ps.again(ps.r.Intervals.DriftPoll), nil
}

// strays returns what removeStrays is about.
func (ps *pass) strays(ref provider.Ref) (strays []provider.Instance) {
	for _, inst := range ps.r.Observations.Strays(ps.handle.Name, ref.UID, ref.ID) {
		if ps.created(inst) {
			strays = append(strays, inst)
		}
	}
	return strays
}

// created reports whether the instance is one that this operator created for this Proxy, which the marks alone do not
// say: a machine cloned by hand carries them too, but has another name. It is its owner's and never deleted.
func (ps *pass) created(inst provider.Instance) bool {
	return inst.Marks.UID == string(ps.p.UID) && provider.NamedFor(inst.ID, string(ps.p.UID))
}

// recordedExists asks the backend for the instance on record.
func (ps *pass) recordedExists(ctx context.Context, ref provider.Ref) bool {
	ps.get(ctx, ref)
	return ps.err == nil && ps.inst.Identity != "" && ps.inst.Marks.Attempt == ref.Attempt
}
