package proxy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxNote is what the API server accepts as an Event's note, less one byte.
const maxNote = 1023

// announce publishes what a successful write changed, as Events and as log lines: a Provisioned reason that needs a person's
// attention, and the turns of Ready. One fact is one Event, and a Proxy that comes up without trouble gets two.
func (ps *pass) announce(ctx context.Context, before, after *v1alpha1.Proxy) {
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionProvisioned)
	now := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionProvisioned)
	told := ps.announceGone(ctx, before, now)
	switch {
	case told && now.Reason == v1alpha1.ReasonReplacing: // what comes next is in the same Event
	case isStuck(now) && !isStuck(old):
		ps.event(ctx, corev1.EventTypeWarning, "RemovalFailed", "Delete", now.Message)
		told = true
	case now != nil && (old == nil || old.Reason != now.Reason):
		switch now.Reason {
		case v1alpha1.ReasonProvisioning, v1alpha1.ReasonDeleting, v1alpha1.ReasonExternalEndpoint, v1alpha1.ReasonUnobserved:
			ctrl.LoggerFrom(ctx).V(1).Info("provisioned changed", "reason", now.Reason, "message", now.Message)
		case v1alpha1.ReasonCreated, v1alpha1.ReasonDraining, v1alpha1.ReasonReplacing:
			ps.event(ctx, corev1.EventTypeNormal, now.Reason, "Reconcile", now.Message)
			told = true
		default:
			ps.event(ctx, corev1.EventTypeWarning, now.Reason, "Reconcile", now.Message)
			told = true
		}
	}
	ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || told || !after.DeletionTimestamp.IsZero():
	case ready.Status == metav1.ConditionTrue:
		if was == nil || was.Status != metav1.ConditionTrue {
			ps.event(ctx, corev1.EventTypeNormal, v1alpha1.ReasonReady, "Probe", ready.Message)
		}
	case was == nil || was.Reason == ready.Reason || ready.Reason == v1alpha1.ReasonNotProbed:
	case ready.Reason == v1alpha1.ReasonSharedCauseSuspected:
		ps.event(ctx, corev1.EventTypeWarning, ready.Reason, "Probe", ready.Message)
	case meta.IsStatusConditionFalse(after.Status.Conditions, v1alpha1.ConditionHealthy):
		// Also when it was not Ready before: the first cause may not be the one that lasts.
		ps.event(ctx, corev1.EventTypeWarning, "NotReady", "Probe", ready.Reason+": "+ready.Message)
	}
}

// announceGone publishes that the instance is gone by others' hands, if it is and that was not told yet.
func (ps *pass) announceGone(ctx context.Context, before *v1alpha1.Proxy, now *metav1.Condition) bool {
	if ps.gone == "" || now == nil {
		return false
	}
	note := ps.gone
	if now.Reason == v1alpha1.ReasonReplacing {
		note += "; " + now.Message
	}
	ps.metrics().InstanceLost(ps.handle.Name)
	ps.event(ctx, corev1.EventTypeWarning, "InstanceGone", "Reconcile", note)
	ps.gone = ""
	ps.r.memory.with(ps.key, func(e *entry) { e.toldGone = before.Status.Instance.Attempt })
	return true
}

func (ps *pass) event(ctx context.Context, kind, reason, action, note string) {
	// With a resourceVersion in the reference the recorder takes every Event for a new one and never aggregates.
	about := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ps.p.Namespace, Name: ps.p.Name, UID: ps.p.UID}}
	about.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	ctrl.LoggerFrom(ctx).Info(note, "reason", reason)
	ps.r.Events.Eventf(about, nil, kind, reason, action, "%s", cut(note, maxNote))
}
