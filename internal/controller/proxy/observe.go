package proxy

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// observe finds out what stands under the recorded ID. A healthy instance that the last list showed just as the status
// has it costs no call.
func (ps *pass) observe(ctx context.Context) {
	ref, ok := ps.ref()
	if !ok {
		ps.seen = sightNoAttempt
		return
	}
	if inst, ok := ps.r.Observations.Seen(ps.p.Spec.Provider, ref.UID); ok && ps.asRecorded(ref, &inst) {
		ps.seen, ps.inst = sightRunning, &inst
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	ps.inst, ps.err = ps.handle.Provider.Get(ctx, ref)
	ps.seen = look(ref, ps.inst, ps.err)
}

// asRecorded reports whether inst is what the status says, settled and as the spec wants it: only then may a list, which
// may lag, stand for a Get.
func (ps *pass) asRecorded(ref provider.Ref, inst *provider.Instance) bool {
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	return c != nil && c.Reason == v1alpha1.ReasonCreated && ps.p.DeletionTimestamp.IsZero() &&
		inst.ID == ref.ID && inst.Marks.Attempt == ref.Attempt && inst.State == provider.StateRunning &&
		inst.IP == ps.p.Status.IP && inst.Port == ps.p.Status.Port && inst.ExitAddress == ps.p.Status.ExitAddress &&
		ps.want.known && provider.SameSpec(inst.Marks.Spec, ps.want.input)
}
