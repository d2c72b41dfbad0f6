package providerhealth

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// maxDetails bounds the details of all targets of an object, in bytes: with everything else an object stays far below
	// what etcd takes.
	maxDetails = 512 << 10
	// maxCondition bounds the message of a condition, in bytes.
	maxCondition = 1 << 10
)

// status is what the object of e should show. problem is why the file's content is not in use for it.
func (e *entry) status(problem string, tooLate string, now time.Time) v1alpha1.ProviderHealthStatus {
	s := v1alpha1.ProviderHealthStatus{
		Type: cut(e.handle.Type, 63), Revision: cut(e.handle.Revision, 64), TargetsTotal: count(len(e.targets)), Targets: shown(e.targets),
	}
	if !e.ended.unsupported {
		at := metav1.NewTime(e.checked)
		s.CheckedTime = &at
	}
	down := notReady(e.targets)
	s.TargetsReady = s.TargetsTotal - count(len(down))
	s.TargetsOmitted = s.TargetsTotal - count(len(s.Targets))
	s.Summary = fmt.Sprintf("%d/%d", s.TargetsReady, s.TargetsTotal)
	if len(down) > 0 {
		s.WorstTarget = slices.MinFunc(down, func(a, b v1alpha1.ProviderTarget) int { // of several the first by name
			return a.LastTransitionTime.Compare(b.LastTransitionTime.Time)
		}).Target
	}
	if e.stored != nil {
		s.Conditions = slices.Clone(e.stored.Status.Conditions)
	}
	for _, c := range []metav1.Condition{e.ready(down, tooLate), accepted(problem)} {
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

func count(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // bounded

// shown returns the targets that the object has room for, without the details that it has no room for. Those that are not
// ready have the first claim on both.
func shown(all []v1alpha1.ProviderTarget) []v1alpha1.ProviderTarget {
	byClaim := slices.Clone(all)
	slices.SortStableFunc(byClaim, func(a, b v1alpha1.ProviderTarget) int {
		switch {
		case a.Ready == b.Ready:
			return 0
		case b.Ready:
			return -1
		}
		return 1
	})
	byClaim = byClaim[:min(len(byClaim), v1alpha1.MaxProviderTargets)]
	room := maxDetails
	for i := range byClaim {
		size := 0
		for k, v := range byClaim[i].Details {
			size += len(k) + len(v) + 8
		}
		if room -= size; room < 0 {
			byClaim[i].Details = nil
		}
	}
	slices.SortFunc(byClaim, func(a, b v1alpha1.ProviderTarget) int { return strings.Compare(a.Target, b.Target) })
	return byClaim
}

func notReady(all []v1alpha1.ProviderTarget) (out []v1alpha1.ProviderTarget) {
	for _, t := range all {
		if !t.Ready {
			out = append(out, t)
		}
	}
	return out
}

// ready is the condition of that name.
func (e *entry) ready(down []v1alpha1.ProviderTarget, tooLate string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case e.ended.unsupported:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonCheckUnsupported
		c.Message = fmt.Sprintf("providers of type %s cannot be checked", e.handle.Type)
	case len(e.targets) == 0 && e.ended.late:
		c.Reason, c.Message = provider.CheckTimeout, tooLate
	case len(e.targets) == 0 && e.ended.panicked:
		c.Reason, c.Message = reasonPanicked, panicText
	case len(e.targets) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonNoTargets, "the check named no target"
	case len(down) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonTargetsReady, allReady(len(e.targets))
	default:
		c.Reason, c.Message = commonReason(down), troubles(down, len(e.targets))
	}
	c.Message = cut(c.Message, maxCondition)
	return c
}

// commonReason is that of all targets, where they have one.
func commonReason(down []v1alpha1.ProviderTarget) string {
	for _, t := range down {
		if t.Reason != down[0].Reason {
			return v1alpha1.ReasonTargetsNotReady
		}
	}
	return down[0].Reason
}

// prefixed is a text that begins with a reason.
var prefixed = regexp.MustCompile(`^([A-Z][A-Za-z]{1,63}): `)

func accepted(problem string) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionConfigurationAccepted, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonConfigurationAccepted, Message: "the configuration file's content is in use",
	}
	if problem == "" {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration, problem
	if m := prefixed.FindStringSubmatch(problem); m != nil {
		c.Reason, c.Message = m[1], strings.TrimPrefix(problem, m[0])
	}
	return c
}

// due reports whether what is to be shown has to be written over what is shown.
func due(shown, wanted v1alpha1.ProviderHealthStatus, every time.Duration) bool {
	if !equality.Semantic.DeepEqual(lasting(shown), lasting(wanted)) {
		return true
	}
	if wanted.CheckedTime == nil {
		return shown.CheckedTime != nil
	}
	// The absolute value, for clocks have been set back.
	return shown.CheckedTime == nil || wanted.CheckedTime.Sub(shown.CheckedTime.Time).Abs() >= every
}

// lasting is s without what differs from check to check.
func lasting(s v1alpha1.ProviderHealthStatus) v1alpha1.ProviderHealthStatus {
	s.CheckedTime = nil
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		s.Targets[i].LatencyMillis, s.Targets[i].Details = 0, nil
	}
	return s
}
