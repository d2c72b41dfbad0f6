package providerhealth

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Reasons of the Events about a ProviderHealth.
const (
	EventReady                 = "Ready"
	EventNotReady              = "NotReady"
	EventTargetReady           = "TargetReady"
	EventTargetNotReady        = "TargetNotReady"
	EventTargetsReady          = "TargetsReady"
	EventTargetsNotReady       = "TargetsNotReady"
	EventConfigurationAccepted = "ConfigurationAccepted"
	EventConfigurationRefused  = "ConfigurationRefused"
	EventNameConflict          = "NameConflict"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning

	// maxSingles bounds the Events about single targets in a round, all entries together, and maxSinglesOf those of one
	// entry in one direction. What is more is told in one Event for the entry.
	maxSingles, maxSinglesOf = 20, 5
	// maxNote is what the API server accepts as an Event's note, less one byte.
	maxNote = 1023
)

// told is what has been said of an entry.
type told struct {
	targets map[string]string // the reason of each target
	ready   metav1.Condition
	problem string
}

func tell(targets []v1alpha1.ProviderTarget, conditions []metav1.Condition) *told {
	t := &told{targets: make(map[string]string, len(targets))}
	for _, target := range targets {
		t.targets[target.Target] = target.Reason
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		t.ready = *c
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionConfigurationAccepted); c != nil && c.Status != metav1.ConditionTrue {
		t.problem = c.Reason + ": " + c.Message
	}
	return t
}

// announce tells what differs from what was told last, in the log and, where about is not nil, in Events about it.
func (m *Monitor) announce(ctx context.Context, e *entry, status v1alpha1.ProviderHealthStatus, about *v1alpha1.ProviderHealth) {
	before, now := e.told, tell(e.targets, status.Conditions)
	e.told = now
	if before == nil {
		before = &told{}
	}
	say := func(kind, reason, note string) {
		ctrl.LoggerFrom(ctx).Info(note, "provider", e.handle.Name, "reason", reason)
		if about != nil {
			m.event(about, kind, reason, note)
		}
	}
	m.announceTargets(e, before, now, say)
	switch now.problem {
	case before.problem:
	case "":
		say(normal, EventConfigurationAccepted, "the configuration file's content is in use")
	default:
		say(warning, EventConfigurationRefused, now.problem)
	}
}

// announceTargets tells which targets have changed, each by itself while they are few.
func (m *Monitor) announceTargets(e *entry, before, now *told, say func(kind, reason, note string)) {
	var down, up []v1alpha1.ProviderTarget
	for _, t := range e.targets {
		was, known := before.targets[t.Target]
		switch {
		case was == t.Reason:
		case !t.Ready:
			down = append(down, t)
		case known:
			up = append(up, t)
		}
	}
	switch {
	case len(down) == 0:
	case m.single(len(down)):
		for _, t := range down {
			say(warning, EventTargetNotReady, trouble(t))
		}
	default:
		say(warning, EventTargetsNotReady, troubles(down, len(e.targets)))
	}
	switch {
	case now.ready.Status == metav1.ConditionTrue && before.ready.Status != metav1.ConditionTrue:
		say(normal, EventReady, now.ready.Message)
	case len(up) == 0:
	case m.single(len(up)):
		for _, t := range up {
			say(normal, EventTargetReady, t.Target+" is ready again")
		}
	default:
		names := make([]string, 0, len(up))
		for _, t := range up {
			names = append(names, t.Target)
		}
		say(normal, EventTargetsReady, fmt.Sprintf("%d of %d targets are ready again: %s", len(up), len(e.targets), named(names)))
	}
	if len(e.targets) == 0 && now.ready.Status == metav1.ConditionFalse && now.ready.Reason != before.ready.Reason {
		say(warning, EventNotReady, now.ready.Reason+": "+now.ready.Message)
	}
}

// single reports whether n targets may have an Event each.
func (m *Monitor) single(n int) bool {
	if n > maxSinglesOf || n > m.singles {
		return false
	}
	m.singles -= n
	return true
}

// event publishes an Event about the object.
// reasonWord is a reason at the beginning of a problem's text.
var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z]{0,63}$`)

func (m *Monitor) event(about metav1.Object, kind, reason, note string) {
	// With a resourceVersion in the reference the recorder takes every Event for a new one and never aggregates.
	ref := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: about.GetName(), UID: about.GetUID()}}
	ref.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProviderHealth"))
	// Events that differ in nothing but their note are counted under the first one's: what is refused for another reason has to
	// be another one.
	action := "Check"
	if word, _, ok := strings.Cut(note, ":"); ok && reason == EventConfigurationRefused && reasonWord.MatchString(word) {
		action = "Refuse" + word
	}
	m.o.Events.Eventf(ref, nil, kind, reason, action, "%s", cut(note, maxNote))
}
