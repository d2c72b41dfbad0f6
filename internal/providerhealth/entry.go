package providerhealth

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	reasonPanicked = v1alpha1.ReasonCheckPanicked
	panicText      = "the check ended with an internal error; the operator's log has it"
)

// entry is what the monitor knows of one provider entry.
type entry struct {
	handle registry.Handle
	// ended is how the last check did, less its statuses.
	ended answer
	// checked is when that was; zero while there was none.
	checked time.Time
	// targets are all of them, sorted.
	targets []v1alpha1.ProviderTarget
	// stored is the object as it was last read or written; nil where there is none of ours.
	stored *v1alpha1.ProviderHealth
	// foreign: the object of that name belongs to another installation.
	foreign bool
	// told is what Events and the log have said; nil while nothing is known.
	told *told
}

// failed returns the known targets, all of them out of order for the same reason.
func (e *entry) failed(reason, text string, took time.Duration) []provider.TargetStatus {
	out := make([]provider.TargetStatus, 0, len(e.targets))
	for _, t := range e.targets {
		out = append(out, provider.TargetStatus{Target: t.Target, Reason: reason, Message: text, Latency: took})
	}
	return out
}

// take replaces what is known by what a check showed. Targets that are as ready as before keep the time since when.
func (e *entry) take(a answer, statuses []provider.TargetStatus, now time.Time) {
	before := make(map[string]v1alpha1.ProviderTarget, len(e.targets))
	for _, t := range e.targets {
		before[t.Target] = t
	}
	e.handle, e.checked = a.handle, now
	e.ended = answer{begun: a.begun, late: a.late, panicked: a.panicked, unsupported: a.unsupported}
	e.targets = make([]v1alpha1.ProviderTarget, 0, len(statuses))
	for _, s := range statuses {
		t := v1alpha1.ProviderTarget{
			Target: s.Target, Ready: s.Ready, Reason: s.Reason, Message: s.Message, LatencyMillis: s.Latency.Milliseconds(),
			LastTransitionTime: metav1.NewTime(now),
		}
		if len(s.Details) > 0 {
			t.Details = make(map[string]v1alpha1.ProviderDetail, len(s.Details))
			for k, v := range s.Details {
				t.Details[k] = v1alpha1.ProviderDetail(v)
			}
		}
		if was, ok := before[t.Target]; ok && was.Ready == t.Ready {
			t.LastTransitionTime = was.LastTransitionTime
		}
		e.targets = append(e.targets, t)
	}
}

// remember takes over what an object says that an earlier process wrote.
func (e *entry) remember() {
	if e.checked.IsZero() {
		e.targets = e.stored.Status.Targets
	}
	if e.told == nil && len(e.stored.Status.Conditions) > 0 {
		e.told = tell(e.stored.Status.Targets, e.stored.Status.Conditions)
	}
}
