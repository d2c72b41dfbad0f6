package proxy

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxMessage bounds a condition's message in bytes.
const maxMessage = 1024

// provisioned stages the Provisioned condition.
func (ps *pass) provisioned(status metav1.ConditionStatus, reason, message string) {
	ps.condition(v1alpha1.ConditionProvisioned, status, reason, message)
}

// keepProvisioned keeps what was last known of Provisioned and adds why it is not known better now.
func (ps *pass) keepProvisioned(reason, message string) {
	last := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if last == nil {
		ps.provisioned(metav1.ConditionUnknown, v1alpha1.ReasonUnobserved, message)
		return
	}
	if last.Status == metav1.ConditionTrue {
		ps.provisioned(last.Status, last.Reason, message)
		return
	}
	if reason == v1alpha1.ReasonProvisioning {
		reason = last.Reason // a passing error says less than what is known
	}
	ps.provisioned(last.Status, reason, message)
}

func (ps *pass) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&ps.p.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: cut(ps.secrets.Hide(message), maxMessage),
		ObservedGeneration: ps.p.Generation,
		// The clock is injected; left out, the API machinery would take the wall clock.
		LastTransitionTime: metav1.NewTime(ps.r.Clock.Now()),
	})
}

// summarize derives Ready and phase from the other two conditions.
func (ps *pass) summarize() {
	conds := ps.p.Status.Conditions
	prov, health := meta.FindStatusCondition(conds, v1alpha1.ConditionProvisioned), meta.FindStatusCondition(conds, v1alpha1.ConditionHealthy)
	switch {
	case prov == nil || prov.Status != metav1.ConditionTrue:
		ps.notReady(prov, v1alpha1.ReasonUnobserved)
	case health == nil || health.Status != metav1.ConditionTrue:
		ps.notReady(health, v1alpha1.ReasonNotProbed)
	default:
		ps.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "provisioned and healthy")
	}
	ps.p.Status.Phase = phase(ps.p)
	ps.p.Status.ObservedGeneration = ps.p.Generation
}

func (ps *pass) notReady(because *metav1.Condition, otherwise string) {
	reason, message := otherwise, ""
	if because != nil {
		reason, message = because.Reason, because.Message
	}
	ps.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

// phase sums p up for people.
func phase(p *v1alpha1.Proxy) v1alpha1.Phase {
	if !p.DeletionTimestamp.IsZero() {
		return v1alpha1.PhaseDeleting
	}
	prov := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if prov == nil || prov.Status != metav1.ConditionTrue {
		if prov != nil {
			switch prov.Reason {
			case v1alpha1.ReasonPermanentError, v1alpha1.ReasonConflict, v1alpha1.ReasonScopeMismatch, v1alpha1.ReasonOpenProxyRefused:
				return v1alpha1.PhaseFailed
			}
		}
		if p.Status.Instance == nil {
			return v1alpha1.PhasePending
		}
		return v1alpha1.PhaseProvisioning
	}
	health := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	switch {
	case health == nil || health.Status == metav1.ConditionUnknown:
		return v1alpha1.PhaseProvisioning
	case health.Status == metav1.ConditionTrue:
		return v1alpha1.PhaseReady
	}
	return v1alpha1.PhaseUnhealthy
}

// cut makes s valid UTF-8 without control characters and at most limit bytes long, cut on a rune's edge.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
