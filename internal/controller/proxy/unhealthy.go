package proxy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// runningMessage is about an instance that there is nothing else to be said of. unsureMessage is added to it while the
// instance would be replaced if it could be told that the fault is its own.
const (
	runningMessage = "the instance is running"
	unsureMessage  = "; it has been Unhealthy for longer than spec.replaceUnhealthyAfter, and is replaced once its probes fail " +
		"while those of most others that probe the same url do not"
)

// worn reports whether a running instance has been Unhealthy for as long as the spec allows. The time is counted from the
// condition on record, so a restart does not begin anew; but what decides is what the health engine has seen since.
func (ps *pass) worn() bool {
	if left, wears := ps.wears(ps.base); !wears || left > 0 {
		return false
	}
	replaceable, unsure := ps.r.Health.Replaceable(ps.key, fleet.FromObject(ps.p, ps.creds).Subject())
	ps.unsure = unsure
	if !replaceable {
		ps.soon(turnPoll) // nothing else tells when that changes
	}
	return replaceable
}

// wornOut reports whether a running instance was withdrawn for being Unhealthy, and its removal has begun. Without an address
// there are no probes that could tell otherwise; only the field's removal does.
func (ps *pass) wornOut() (yes bool) {
	if ps.withdrawn() && ps.p.Spec.ReplaceUnhealthyAfter != nil {
		ps.removal(func(r *removal) { yes = r.worn })
	}
	return yes
}

// wears returns for how long p may still be Unhealthy; ok is false when it is not, or may be so for ever.
func (ps *pass) wears(p *v1alpha1.Proxy) (left time.Duration, ok bool) {
	limit := p.Spec.ReplaceUnhealthyAfter
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if limit == nil || c == nil || c.Status != metav1.ConditionFalse {
		return 0, false
	}
	return limit.Duration.Duration - ps.r.Clock.Since(c.LastTransitionTime.Time), true
}

// pause leaves a replacement where it is until it is known again whether the fault is the instance's own.
func (ps *pass) pause(ctx context.Context) (ctrl.Result, error) {
	ps.health()
	return ps.record(ctx, ps.steady)
}

// noteWorn counts an instance that is replaced for being Unhealthy. One that followed on another and never was Healthy
// counts as one that died young, however long it was tried: what is wrong then is hardly the instance.
func (ps *pass) noteWorn(followed bool) {
	born := ps.inst.CreatedAt
	if followed {
		born = ps.r.Clock.Now()
	}
	ps.noteDeath(born)
}

// soon asks for another pass after d at the latest.
func (ps *pass) soon(d time.Duration) {
	if ps.later == 0 || d < ps.later {
		ps.later = d
	}
}
