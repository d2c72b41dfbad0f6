package proxy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// managed is the pass over a living Managed Proxy.
func (ps *pass) managed(ctx context.Context) (ctrl.Result, error) {
	if ps.p.Status.Instance == nil {
		// "No attempt" decides between creating and not, so it must not come from a cache.
		if err := ps.refresh(ctx); err != nil {
			return ctrl.Result{}, err
		}
		if !ps.p.DeletionTimestamp.IsZero() || ps.p.Status.Instance != nil {
			return ctrl.Result{}, conflict(ps.key.Name, "the cache is behind")
		}
	}
	if err := ps.resolve(ctx); err != nil {
		return ctrl.Result{}, err
	}
	ctx = ps.discreet(ctx)
	if !ps.configured {
		return ps.unmanaged(ctx)
	}
	if ps.stillStopped() {
		ps.health()
		return ps.record(ctx, ps.nextTurn)
	}
	ps.observe(ctx)
	return ps.act(ctx)
}

// act does what the table says about what was seen.
func (ps *pass) act(ctx context.Context) (ctrl.Result, error) {
	if busy(ps.err) {
		return ps.queue(ctx)
	}
	switch decide(ps.seen, false) {
	case stepSettle:
		if ps.wornOut() {
			return inSpan(ctx, spanReplace, ps.replace)
		}
		if ps.takeAddress(); ps.worn() {
			return inSpan(ctx, spanReplace, ps.replace)
		}
		if ps.unsure && ps.p.Status.DrainingSince != nil {
			return ps.pause(ctx)
		}
		return ps.settle(ctx)
	case stepReplace:
		return inSpan(ctx, spanReplace, ps.replace)
	case stepReplaceDead:
		return ps.replaceDead(ctx, "stopped")
	case stepPoll:
		if ps.overdue() {
			return ps.giveUp(ctx, "is not running within "+ps.r.Intervals.Provisioning.String())
		}
		return ps.wait(ctx)
	case stepAwait:
		return ps.wait(ctx)
	case stepResume:
		return ps.resume(ctx)
	case stepCreateNext:
		return ps.createNext(ctx)
	case stepRetryLater:
		return ps.retryLater(ctx)
	case stepGiveUp:
		return ps.giveUp(ctx, "failed")
	case stepDelete:
		return ps.discard(ctx, "found: "+string(ps.seen))
	case stepRestored:
		return ps.takeOver(ctx)
	case stepHold, stepRelease:
		// The table releases no living Proxy; to hold it is the safe reading of anything else.
	}
	return ps.hold(ctx)
}

// unmanaged leaves everything as it is while the provider entry is missing.
func (ps *pass) unmanaged(ctx context.Context) (ctrl.Result, error) {
	ps.keepProvisioned(ps.blocked.reason, "unmanaged: "+ps.blocked.message)
	if ps.p.Status.Instance == nil {
		ps.provisioned(metav1.ConditionFalse, ps.blocked.reason, ps.blocked.message)
	}
	ps.health()
	return ps.record(ctx, ps.steady)
}

// settle takes a running instance over into the status.
func (ps *pass) settle(ctx context.Context) (ctrl.Result, error) {
	ps.takeAddress()
	ps.cancelReplacement()
	if ps.blocked != nil {
		ps.provisioned(metav1.ConditionTrue, v1alpha1.ReasonUpdateBlocked, ps.blocked.reason+": "+ps.blocked.message)
	} else if !ps.handoverFailed() {
		// The provider's own words would change with every poll; what matters about a running instance is elsewhere.
		message := runningMessage
		if ps.unsure {
			message += unsureMessage
		}
		ps.provisioned(metav1.ConditionTrue, v1alpha1.ReasonCreated, message)
	}
	ps.health()
	if left, wears := ps.wears(ps.p); wears && left > 0 {
		ps.soon(left)
	}
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ps.rotate(ctx)
}

func (ps *pass) takeAddress() {
	st := &ps.p.Status
	st.IP, st.Port, st.ExitAddress = ps.inst.IP, ps.inst.Port, ps.inst.ExitAddress
	st.Latch = nil
	st.Instance.Ran = true
}

// overdue reports whether a visible instance has not come up within the provisioning time-out: since it was requested or,
// if it ran before, since it was last known to run.
func (ps *pass) overdue() bool {
	ref, ok := ps.ref()
	if !ok || ps.seen != sightProvisioning || ps.inst.Identity == "" {
		return false
	}
	since := ref.RequestedAt
	if ps.p.Status.Instance.Ran {
		c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
		if c == nil || c.Status == metav1.ConditionTrue {
			return false
		}
		since = c.LastTransitionTime.Time
	}
	return ps.r.Clock.Since(since) > ps.r.Intervals.Provisioning
}

// giveUp ends an instance that does not get on. One that never ran is discarded; one that did takes its turn like those
// that stopped, for a backend may reboot or evict everything at once.
func (ps *pass) giveUp(ctx context.Context, why string) (ctrl.Result, error) {
	if ps.p.Status.Instance.Ran {
		return ps.replaceDead(ctx, why)
	}
	return ps.discard(ctx, why)
}

// wait polls an instance that is on its way up or down.
func (ps *pass) wait(ctx context.Context) (ctrl.Result, error) {
	ps.withdraw()
	reason := v1alpha1.ReasonProvisioning
	if ps.seen == sightDeleting || ps.p.Status.DrainingSince != nil {
		reason = v1alpha1.ReasonReplacing
	}
	switch {
	case ps.fresh() || ps.seen != sightNothingYet && (ps.seen != sightDeleting || ps.p.Status.Instance.Ran):
		ps.provisioned(metav1.ConditionFalse, reason, ps.describe(string(ps.seen)))
	case ps.seen == sightNothingYet && ps.blocked == nil && ps.moved():
		ps.letGo()
	default: // the failure on record says more than that there is nothing to be seen, or that its rest is being removed
		ps.unstick()
	}
	ps.health()
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	limit := ps.r.Intervals.ProvisioningPoll
	if ps.seen == sightDeleting {
		limit = ps.r.Intervals.DeletionPoll
	}
	next := ps.poll(limit)
	if left, held := ps.held(); held && ps.seen == sightNothingYet && left > next.RequeueAfter {
		// The creation failed and nothing came of it so far. Asking more often than it may be tried again would only
		// disturb a backend that has said to wait; should something come up after all, the list shows it.
		next = after(left)
	}
	return next, nil
}

// hold touches nothing and says why.
func (ps *pass) hold(ctx context.Context) (ctrl.Result, error) {
	switch ps.seen {
	case sightUnknown:
		ps.keepProvisioned(v1alpha1.ReasonProvisioning, ps.describe("the instance is in a state the operator does not know; it is left alone"))
		ps.health()
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.poll(ps.r.Intervals.ProvisioningPoll), nil
	default:
		f := ps.failureOf(ps.err)
		if ps.seen == sightConflict || ps.seen == sightConflictEarly {
			// Somebody else stands where the instance was, so the address is theirs: nothing is offered under it.
			ps.withdraw()
			ps.provisioned(metav1.ConditionFalse, f.reason, f.message)
		} else {
			ps.keepProvisioned(f.reason, f.message)
		}
		ps.health()
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.tryAgain(f), nil
	}
}

// discard deletes an instance that never served, for a new attempt to take its place.
func (ps *pass) discard(ctx context.Context, why string) (ctrl.Result, error) {
	ps.withdraw()
	if ps.blocked != nil {
		// Without what a new instance needs, removing the old one would only lose what it may still tell.
		ps.provisioned(metav1.ConditionFalse, ps.blocked.reason, ps.blocked.message)
		ps.health()
		return ps.record(ctx, ps.steady)
	}
	switch {
	case ps.seen != sightFailedLeft:
		ps.removing(v1alpha1.ReasonReplacing, ps.describe(why)+"; it is removed and created anew")
	case ps.fresh():
		ps.late = true
		ps.fail(ps.inst.Err)
	} // else the failure is on record
	ps.health()
	return ps.remove(ctx)
}

// takeOver corrects a record that was restored from an older state.
func (ps *pass) takeOver(ctx context.Context) (ctrl.Result, error) {
	found := ps.inst.Marks.Attempt
	if err := ps.refresh(ctx); err != nil {
		return ctrl.Result{}, err
	}
	rec := ps.p.Status.Instance
	if !ps.p.DeletionTimestamp.IsZero() || rec == nil || rec.Attempt >= found || ps.p.Status.ProviderID != ps.inst.ID {
		return ctrl.Result{}, conflict(ps.key.Name, "the cache is behind")
	}
	rec.Attempt, rec.RequestedAt, rec.Ran = found, ps.now(), false
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonProvisioning, fmt.Sprintf("the record was older than the instance found; attempt %d is taken over", found))
	ps.health()
	if err := ps.writeToAct(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ps.poll(ps.r.Intervals.ProvisioningPoll), nil
}

// withdraw takes the address back: nothing may be offered under it any more.
func (ps *pass) withdraw() {
	ps.p.Status.IP, ps.p.Status.Port, ps.p.Status.ExitAddress = "", 0, ""
}

// describe adds the provider's words to what.
func (ps *pass) describe(what string) string {
	if ps.inst != nil && ps.inst.Message != "" {
		return what + ": " + ps.inst.Message
	}
	return what
}
