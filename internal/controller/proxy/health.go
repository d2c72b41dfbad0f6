package proxy

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// health represents what the health engine says about exactly what the status now describes. Whatever the provider
// step returned, this runs: a backend that is down must not hide that its proxies work.
func (ps *pass) health() {
	now := fleet.FromObject(ps.p, ps.creds)
	subject := now.Subject()
	v, ok := ps.r.Health.Verdict(ps.key)
	if ok && v.Subject == subject && now.Endpoint.Host != "" {
		ps.verdict(v)
		return
	}
	last := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionHealthy)
	before := fleet.FromObject(ps.base, ps.creds)
	unprobed := ok && v.Subject == (fleet.Subject{}) // the engine knows the Proxy and has nothing to say of it
	if last == nil || now.Endpoint.Host == "" || before.Subject() != subject || unprobed {
		message := "no probe of this instance has ended yet"
		if now.Endpoint.Host == "" {
			message = "there is no address to probe"
		}
		ps.verdict(fleet.Verdict{Reason: v1alpha1.ReasonNotProbed, Message: message})
	}
	// Otherwise the engine has not got to it yet, after a restart: what is on record stands until it has.
}

func (ps *pass) verdict(v fleet.Verdict) {
	status := metav1.ConditionUnknown
	switch v.Health {
	case fleet.Healthy:
		status = metav1.ConditionTrue
	case fleet.Unhealthy:
		status = metav1.ConditionFalse
	case fleet.HealthUnknown:
		// The condition says so, too.
	}
	if v.Held {
		// It is kept, and offered or not as it was; whether it is still true cannot be known now.
		status = metav1.ConditionUnknown
	}
	reason := v.Reason
	if reason == "" {
		reason = v1alpha1.ReasonNotProbed
	}
	ps.condition(v1alpha1.ConditionHealthy, status, reason, v.Message)
	st := &ps.p.Status
	st.LatencyMillis, st.LastHealthCheckTime = nil, nil
	if v.Health == fleet.Healthy {
		if st.ReplacingSince != nil && st.DrainingSince == nil {
			st.ReplacingSince = nil // the new one works: the place is free for the next
			ps.leavePlace()
		}
		st.LatencyMillis = ptr.To(v.Latency.Milliseconds())
	}
	if !v.At.IsZero() {
		st.LastHealthCheckTime = ptr.To(metav1.NewTime(v.At).Rfc3339Copy())
	}
}
