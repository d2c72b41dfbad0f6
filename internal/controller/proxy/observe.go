package proxy

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// observe finds out what stands under the recorded ID. An instance that the last list showed just as the status has it
// costs no call.
func (ps *pass) observe(ctx context.Context) {
	ref, ok := ps.ref()
	if !ok {
		ps.seen = sightNoAttempt
		return
	}
	if inst, ok := ps.r.Observations.Seen(ps.p.Spec.Provider, ref.UID, ref.ID); ok && ps.asRecorded(ref, &inst) {
		ps.seen, ps.inst, ps.listed = sightRunning, &inst, true
	} else {
		ps.get(ctx, ref)
	}
	ps.compare()
}

// get asks the backend.
func (ps *pass) get(ctx context.Context, ref provider.Ref) {
	if left := ps.r.memory.resting(ps.key, ps.r.Clock.Now()); left > 0 {
		ps.inst, ps.seen, ps.listed = nil, sightError, false
		ps.err = provider.Wrap(provider.ErrTransient, "get", ps.handle.Name, ref.ID, nil).WithReason(provider.ReasonBusy).WithRetryAfter(left)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	ps.inst, ps.err = ps.handle.Provider.Get(ctx, ref)
	ps.seen, ps.listed = look(ref, ps.inst, ps.err), false
	if ps.err == nil && ps.inst.Identity != "" && ps.inst.Marks.Attempt == ref.Attempt {
		// To have seen the instance is an answer to its creation: once it is gone again, the attempt is over, and what
		// comes next gets a number of its own (leases and verdicts belong to it).
		ps.r.memory.answer(ps.key, ref.Attempt, ref.RequestedAt)
	}
}

// compare tells a running instance that is as desired from one that has to be replaced. While it is not known what is
// desired, nothing has to be replaced.
func (ps *pass) compare() {
	if ps.seen != sightRunning || !ps.want.known {
		return
	}
	if ps.replaceAsked() || !provider.SameSpec(ps.inst.Marks.Spec, ps.want.input) {
		ps.seen = sightDrifted
	}
}

// replaceAsked reports whether the replace annotation has a value that the recorded attempt does not answer yet.
func (ps *pass) replaceAsked() bool {
	v := ps.replaceValue()
	return v != "" && v != ps.p.Status.Replaced
}

func (ps *pass) replaceValue() string {
	v := ps.p.Annotations[v1alpha1.AnnotationReplace]
	if short := cut(v, maxMessage); short == v {
		return v
	}
	// Two long values must not count as one because they begin alike.
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(v)))
}

// asRecorded reports whether inst is what the status says and settled: only then may a list, which may lag, stand for a
// Get. Nothing is done to an instance on the word of a list.
func (ps *pass) asRecorded(ref provider.Ref, inst *provider.Instance) bool {
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	settled := c != nil && (c.Reason == v1alpha1.ReasonCreated || c.Reason == v1alpha1.ReasonUpdateBlocked)
	return settled && ps.p.DeletionTimestamp.IsZero() &&
		inst.ID == ref.ID && inst.Marks.Attempt == ref.Attempt && inst.State == provider.StateRunning &&
		inst.IP == ps.p.Status.IP && inst.Port == ps.p.Status.Port && inst.ExitAddress == ps.p.Status.ExitAddress
}
