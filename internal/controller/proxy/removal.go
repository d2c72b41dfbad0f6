package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// deletionRetryLimit is the longest wait between two tries of a deletion that meets errors. It never gives up: giving up
	// would be a leak.
	deletionRetryLimit = 10 * time.Minute

	// removalFailed begins what is said of a removal that does not get on.
	removalFailed = "removing the instance failed: "
	// failureRoom is what of a failed creation's message is kept beside that.
	failureRoom = maxMessage / 2
)

// isStuck reports whether c says that a removal does not get on.
func isStuck(c *metav1.Condition) bool {
	return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, removalFailed)
}

// removal tells or changes what the process knows of the removal of the instance on record.
func (ps *pass) removal(f func(*removal)) {
	ref, _ := ps.ref()
	ps.r.memory.removal(ps.key, record{ref.Attempt, ref.RequestedAt.UnixMicro()}, f)
}

// removing stages that an instance is being removed or, for as long as the backend refuses that, why it does: a message that
// alternated between the two would wake the Proxy each time.
func (ps *pass) removing(reason, message string) {
	var last removal
	ps.removal(func(r *removal) { last = *r })
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	switch {
	case !last.accepted && isStuck(c) && c.Reason == reason:
		ps.provisioned(metav1.ConditionFalse, reason, c.Message) // in the words last told, perhaps before a restart
	case last.why != "":
		ps.stuck(reason, last.why)
	default:
		ps.provisioned(metav1.ConditionFalse, reason, message)
	}
}

// stuck stages why a removal does not get on. A failure on record that holds the next attempt back keeps its reason, and is
// told first: it is there to stay once the removal is through.
func (ps *pass) stuck(reason, why string) {
	c := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if !ps.fresh() && ps.p.DeletionTimestamp.IsZero() && c != nil && c.Status == metav1.ConditionFalse {
		before, _, _ := strings.Cut(c.Message, "; "+removalFailed)
		// In place: the generation that the failure was of belongs to the latch.
		c.Message = cut(cut(before, failureRoom)+"; "+removalFailed+why, maxMessage)
		return
	}
	ps.provisioned(metav1.ConditionFalse, reason, removalFailed+why)
}

// unstick leaves of a failure on record what it was before stuck added to it.
func (ps *pass) unstick() {
	c := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if c != nil {
		c.Message, _, _ = strings.Cut(c.Message, "; "+removalFailed)
	}
}

// putOff returns for how long the instance is not to be deleted yet: until the wait of the last refusal is over, or the Proxy
// asks for something else. Whatever else wakes the Proxy, its own write first of all, does not bring the next try forward.
func (ps *pass) putOff() (left time.Duration) {
	ps.removal(func(r *removal) {
		if r.why != "" && r.asked == ps.asked() {
			left = r.until.Sub(ps.r.Clock.Now())
		}
	})
	return left
}

// asked changes with what a person asks for: a refusal of before may not hold any more.
func (ps *pass) asked() string { return fmt.Sprint(ps.p.Generation, "/", ps.replaceValue()) }

// remove puts the staged status on record and deletes what was seen.
func (ps *pass) remove(ctx context.Context) (ctrl.Result, error) {
	if left := ps.putOff(); left > 0 {
		return ps.record(ctx, func() ctrl.Result { return ps.within(left) })
	}
	if err := ps.writeToAct(ctx); err != nil {
		return ctrl.Result{}, err
	}
	ps.removal(func(r *removal) { r.sent = true })
	if err := ps.delete(ctx, *ps.inst); err != nil {
		return ps.notRemoved(ctx, v1alpha1.ReasonReplacing, err)
	}
	ps.accepted()
	return ps.poll(ps.r.Intervals.DeletionPoll), nil
}

// accepted ends a row of refusals.
func (ps *pass) accepted() {
	ps.removal(func(r *removal) { r.failures, r.why, r.accepted = 0, "", true })
}

// delete asks the backend to remove what was seen, by its identity.
func (ps *pass) delete(ctx context.Context, inst provider.Instance) error {
	ref, _ := ps.ref()
	target := provider.Ref{ID: inst.ID, UID: string(ps.p.UID), Attempt: inst.Marks.Attempt, Identity: inst.Identity, RequestedAt: ref.RequestedAt}
	ctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	return ps.handle.Provider.Delete(ctx, target)
}

// notRemoved shows why a backend refuses to delete and tries again with growing waits.
func (ps *pass) notRemoved(ctx context.Context, reason string, err error) (ctrl.Result, error) {
	if busy(err) {
		ps.err = err
		return ps.queue(ctx)
	}
	f := ps.removalFailure(err)
	now := ps.r.Clock.Now()
	n := 0
	ps.removal(func(r *removal) {
		if r.failures == 0 || !now.Before(r.until) {
			r.failures++ // else an edit has brought this try forward, and does not count
		}
		n = r.failures - 1
	})
	wait := ps.r.jitter(f.wait(n))
	if f.asked {
		wait = ps.retry(f, n).RequeueAfter
	}
	ps.removal(func(r *removal) {
		r.accepted, r.until, r.asked, r.why = false, now.Add(wait), ps.asked(), f.message
		// The first time in a row it is for the gate to hold the next one back. A target that lets itself be asked again but
		// refuses again to remove this one would otherwise be shut for everybody over and over.
		if f.shut && n == 0 {
			r.until = now
		}
	})
	ps.stuck(reason, f.message)
	ps.health()
	return ps.record(ctx, func() ctrl.Result { return ps.within(wait) })
}

// cannotRemove shows why it cannot be seen what is to be removed and looks again with growing waits.
func (ps *pass) cannotRemove(ctx context.Context, err error) (ctrl.Result, error) {
	if busy(err) {
		ps.err = err
		return ps.queue(ctx)
	}
	f := ps.removalFailure(err)
	ps.stuck(v1alpha1.ReasonDeleting, f.message)
	ps.health()
	return ps.record(ctx, func() ctrl.Result { return ps.tryAgain(f) })
}

// removalFailure is failureOf for what keeps an instance from being removed: of whatever class it is, somebody waits for it.
func (ps *pass) removalFailure(err error) failure {
	f := ps.failureOf(err)
	if !f.asked && !f.shut {
		f.first, f.limit = time.Second, deletionRetryLimit
	}
	return f
}
