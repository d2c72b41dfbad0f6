package proxy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxNote is what the API server accepts as an Event's note, less one byte.
const maxNote = 1023

// announce publishes what a successful write changed: a Provisioned reason that needs a person's attention, and the
// turns of Ready. A Proxy that comes up without trouble gets one Event.
func (ps *pass) announce(before, after *v1alpha1.Proxy) {
	old := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionProvisioned)
	now := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionProvisioned)
	if now != nil && (old == nil || old.Reason != now.Reason) {
		switch now.Reason {
		case v1alpha1.ReasonProvisioning, v1alpha1.ReasonDeleting, v1alpha1.ReasonExternalEndpoint, v1alpha1.ReasonDraining, v1alpha1.ReasonUnobserved:
		case v1alpha1.ReasonCreated:
			ps.event(corev1.EventTypeNormal, now.Reason, "Create", now.Message)
		default:
			ps.event(corev1.EventTypeWarning, now.Reason, "Reconcile", now.Message)
		}
	}
	ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	was := meta.IsStatusConditionTrue(before.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionTrue && !was:
		ps.event(corev1.EventTypeNormal, v1alpha1.ReasonReady, "Probe", ready.Message)
	case ready.Status != metav1.ConditionTrue && was && after.DeletionTimestamp.IsZero():
		ps.event(corev1.EventTypeWarning, "NotReady", "Probe", ready.Reason+": "+ready.Message)
	}
}

func (ps *pass) event(kind, reason, action, note string) {
	// With a resourceVersion in the reference the recorder takes every Event for a new one and never aggregates.
	about := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: ps.p.Namespace, Name: ps.p.Name, UID: ps.p.UID}}
	about.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	ps.r.Events.Eventf(about, nil, kind, reason, action, "%s", cut(note, maxNote))
}
