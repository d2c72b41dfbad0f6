package proxy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const removingMessage = "the instance is being removed"

// deletion removes the instance and then the finalizer.
func (ps *pass) deletion(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(ps.p, v1alpha1.FinalizerInstance) {
		return ctrl.Result{}, nil
	}
	if ps.p.Annotations[v1alpha1.AnnotationSkipCleanup] == v1alpha1.LabelValueTrue {
		return ps.skipCleanup(ctx)
	}
	if ps.p.Status.Instance == nil {
		if err := ps.refresh(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	ps.p.Status.ReplacingSince = nil // what is deleted is not replaced any more
	ps.leavePlace()
	ps.resolveProvider()
	if !ps.configured {
		if ps.p.Status.Instance == nil {
			return ps.removeFinalizer(ctx)
		}
		ps.provisioned(metav1.ConditionFalse, ps.blocked.reason, ps.blocked.message+"; the instance on record may still exist, so the object stays")
		ps.health()
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.again(deletionRetryLimit), nil
	}
	ctx = ps.discreetToo(ctx)
	if ps.observe(ctx); busy(ps.err) {
		ps.announceDeletion()
		return ps.queue(ctx)
	}
	if left := ps.drainForDeletion(); left > 0 {
		ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonDraining, "withdrawn; waiting for its leases to end")
		ps.health()
		if err := ps.write(ctx); err != nil {
			return ctrl.Result{}, err
		}
		return ps.again(min(left, time.Second)), nil
	}
	ps.withdraw()
	todo := decide(ps.seen, true)
	if todo == stepHold {
		return ps.cannotRemove(ctx, ps.err)
	}
	// Something on its way that cannot be seen cannot be deleted either.
	removable := todo == stepDelete && ps.inst.Identity != ""
	if removable {
		ps.removing(v1alpha1.ReasonDeleting, removingMessage)
	} else {
		ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonDeleting, removingMessage)
	}
	ps.health()
	if todo == stepRelease {
		return ps.release(ctx)
	}
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if removable {
		if left := ps.putOff(); left > 0 {
			return ps.within(left), nil
		}
		if err := ps.delete(ctx, *ps.inst); err != nil {
			return ps.notRemoved(ctx, v1alpha1.ReasonDeleting, err)
		}
		ps.accepted()
	}
	return ps.poll(ps.r.Intervals.DeletionPoll), nil
}

// announceDeletion takes the Proxy off the offer at once, however long its backend is not to be asked.
func (ps *pass) announceDeletion() {
	c := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	if c != nil && (c.Reason == v1alpha1.ReasonDeleting || c.Reason == v1alpha1.ReasonDraining) {
		return
	}
	ps.r.Leases.Withdraw(ps.leaseKey())
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "the instance is going to be removed")
}

// release removes the finalizer once a live list shows nothing of this Proxy either; what it shows is deleted first.
// Scopes that could not be read do not hold the release: the collector covers them. A clone does not either.
func (ps *pass) release(ctx context.Context) (ctrl.Result, error) {
	cctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	listing, err := ps.handle.Provider.ListByTag(cctx)
	if err != nil {
		return ps.cannotRemove(ctx, err)
	}
	left := 0
	for _, inst := range listing.Instances {
		if !ps.created(inst) {
			continue
		}
		left++
		if inst.State == provider.StateDeleting {
			continue
		}
		if wait := ps.putOff(); wait > 0 {
			ps.removing(v1alpha1.ReasonDeleting, removingMessage)
			return ps.record(ctx, func() ctrl.Result { return ps.within(wait) })
		}
		if err := ps.delete(ctx, inst); err != nil {
			return ps.notRemoved(ctx, v1alpha1.ReasonDeleting, err)
		}
		ps.accepted()
	}
	if left == 0 {
		return ps.removeFinalizer(ctx)
	}
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ps.poll(ps.r.Intervals.DeletionPoll), nil
}

// skipCleanup releases the object on the user's word and says what is left behind.
func (ps *pass) skipCleanup(ctx context.Context) (ctrl.Result, error) {
	left := "no instance is on record"
	if ps.p.Status.Instance != nil {
		left = fmt.Sprintf("instance %s (attempt %d) is left as it is", ps.p.Status.ProviderID, ps.p.Status.Instance.Attempt)
	}
	res, err := ps.removeFinalizer(ctx)
	if err == nil {
		ps.event(ctx, corev1.EventTypeWarning, "CleanupSkipped", "Delete", left)
	}
	return res, err
}

func (ps *pass) removeFinalizer(ctx context.Context) (ctrl.Result, error) {
	err := ps.patchMeta(ctx, func(p *v1alpha1.Proxy) { controllerutil.RemoveFinalizer(p, v1alpha1.FinalizerInstance) })
	if err == nil {
		ps.r.memory.forget(ps.key)
	}
	return ctrl.Result{}, err
}
