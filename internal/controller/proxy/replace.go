package proxy

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// turnPoll is how often a Proxy that waits for its turn asks again.
	turnPoll = 15 * time.Second
	// waitingMessage never changes while a Proxy waits, or a rotated Secret shared by a thousand would be a thousand
	// writes a minute.
	waitingMessage = "waits for its turn to be replaced: --max-replacing bounds how many of a provider's instances are replaced at one time"
)

// replace exchanges a running instance that is not as desired. Until a new one can be made and it is its turn, the old one
// keeps serving.
func (ps *pass) replace(ctx context.Context) (ctrl.Result, error) {
	ps.takeAddress()
	if ps.blocked != nil {
		ps.cancelReplacement()
		return ps.keepServing(ctx, ps.blocked.reason+": "+ps.blocked.message, ps.steady)
	}
	// Also while it drains: the spec may have changed again, to what cannot be made.
	_, err := ps.plan(ctx)
	if busy(err) {
		ps.err = err
		return ps.queue(ctx)
	}
	if err != nil {
		ps.cancelReplacement()
		f := ps.failureOf(err)
		return ps.keepServing(ctx, "it cannot be replaced: "+f.message, func() ctrl.Result { return ps.tryAgain(f) })
	}
	ps.r.memory.succeeded(ps.key)
	if ps.withdrawn() {
		return ps.drained(ctx)
	}
	if ps.p.Status.DrainingSince == nil {
		followed := ps.p.Status.ReplacingSince != nil
		if !ps.takePlace() {
			return ps.keepServing(ctx, waitingMessage, ps.nextTurn)
		}
		if ps.listed {
			// Whoever acts must have seen the instance itself.
			ref, _ := ps.ref()
			ps.get(ctx, ref)
			if ps.compare(); ps.seen != sightDrifted && (ps.seen != sightRunning || !ps.worn()) {
				ps.p.Status.ReplacingSince = nil
				ps.leavePlace()
				return ps.act(ctx)
			}
		}
		ps.p.Status.DrainingSince = ptr.To(ps.now())
		if ps.seen == sightRunning {
			ps.noteWorn(followed)
		}
	}
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonDraining, ps.drainingMessage())
	ps.health()
	if err := ps.writeToAct(ctx); err != nil {
		ps.leavePlace()
		return ctrl.Result{}, err
	}
	return ps.drained(ctx)
}

// drained removes an instance whose withdrawal is on record, so that a restart cannot forget it, once its leases have ended;
// from here on nothing new is granted.
func (ps *pass) drained(ctx context.Context) (ctrl.Result, error) {
	live := ps.r.Leases.Withdraw(ps.leaseKey())
	if left := ps.r.Intervals.Drain - ps.r.Clock.Since(ps.p.Status.DrainingSince.Time); live > 0 && left > 0 {
		if ps.withdrawn() { // it booted again meanwhile, and lost its address by that
			ps.withdraw()
			ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonDraining, ps.drainingMessage())
			ps.health()
		}
		return ps.record(ctx, func() ctrl.Result { return ps.again(min(left, time.Second)) })
	}
	ps.withdraw()
	ps.removing(v1alpha1.ReasonReplacing, "the instance is removed to be created anew")
	ps.health()
	if ps.seen == sightRunning {
		ps.removal(func(r *removal) { r.worn = true })
	}
	return ps.remove(ctx)
}

// withdrawn reports whether it is on record that the instance is being replaced and has no address any more. It does not get
// it back for a removal that takes long: that would be two writes for each look.
func (ps *pass) withdrawn() bool {
	return ps.p.Status.DrainingSince != nil && ps.base.Status.IP == ""
}

func (ps *pass) drainingMessage() string {
	return "withdrawn to be replaced (" + ps.why() + "); its leases may end first"
}

// why says what a replacement is for.
func (ps *pass) why() string {
	if ps.replaceAsked() {
		return "asked for by annotation"
	}
	if ps.seen == sightRunning {
		return "Unhealthy for longer than spec.replaceUnhealthyAfter"
	}
	return "the spec changed"
}

// keepServing leaves the instance as it is and says why.
func (ps *pass) keepServing(ctx context.Context, why string, next func() ctrl.Result) (ctrl.Result, error) {
	ps.provisioned(metav1.ConditionTrue, v1alpha1.ReasonUpdateBlocked, why)
	ps.health()
	return ps.record(ctx, next)
}

// nextTurn asks for another pass when a place may have become free.
func (ps *pass) nextTurn() ctrl.Result { return ps.again(turnPoll) }

// cancelReplacement takes a withdrawal back when the instance turns out to be as desired: the spec was changed back.
func (ps *pass) cancelReplacement() {
	if ps.p.Status.DrainingSince == nil {
		return
	}
	ps.p.Status.DrainingSince, ps.p.Status.ReplacingSince = nil, nil
	ps.leavePlace()
	ps.removal(func(r *removal) { r.failures, r.why, r.worn = 0, "", false })
	ps.r.Leases.Readmit(ps.leaseKey())
}

// replaceDead exchanges an instance that does not run any more, for the reason that dead names. It serves nobody, yet it takes its turn like the others: a backend that
// stops everything must not empty the fleet.
func (ps *pass) replaceDead(ctx context.Context, dead string) (ctrl.Result, error) {
	ps.withdraw()
	if ps.blocked != nil {
		ps.provisioned(metav1.ConditionFalse, ps.blocked.reason, ps.blocked.message)
		ps.health()
		return ps.record(ctx, ps.steady)
	}
	if ps.p.Status.DrainingSince == nil {
		if !ps.takePlace() {
			ps.r.memory.waitStopped(ps.key, ps.inst.Marks.Attempt)
			ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonReplacing, "the instance "+dead+"; it "+waitingMessage)
			ps.health()
			return ps.record(ctx, ps.nextTurn)
		}
		ps.p.Status.DrainingSince = ptr.To(ps.now())
		ps.noteDeath(ps.inst.CreatedAt)
	}
	ps.removing(v1alpha1.ReasonReplacing, ps.describe("the instance "+dead+"; it is removed and created anew"))
	ps.health()
	res, err := ps.remove(ctx)
	if err != nil {
		ps.leavePlace()
	}
	return res, err
}

// drainForDeletion withdraws an instance that is to be deleted and returns how long its leases may still hold that back.
func (ps *pass) drainForDeletion() time.Duration {
	if ps.seen != sightRunning && ps.seen != sightDrifted {
		return 0
	}
	live := ps.r.Leases.Withdraw(ps.leaseKey())
	left := ps.r.Intervals.Drain - ps.r.Clock.Since(ps.p.DeletionTimestamp.Time)
	if live == 0 || left < 0 {
		return 0
	}
	return left
}

// leaseKey is what leases on the recorded instance belong to.
func (ps *pass) leaseKey() fleet.LeaseKey { return fleet.FromObject(ps.p, ps.creds).LeaseKey() }
