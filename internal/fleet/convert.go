package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// FromObject returns the snapshot of p with the credentials that its spec names. creds is nil when the spec names none
// or when they cannot be read. p is not kept, but the CA bundle in its spec is shared and must not be changed.
func FromObject(p *v1alpha1.Proxy, creds *provider.Credentials) *Proxy {
	out := &Proxy{
		Key:        types.NamespacedName{Namespace: p.Namespace, Name: p.Name},
		UID:        string(p.UID),
		Generation: p.Generation,
		Mode:       v1alpha1.ModeExternal,
		Attributes: p.Spec.AttributeMap(),
		Cap:        p.Spec.LeaseCap(),
		Cordoned:   p.Spec.Cordoned,
		Deleting:   !p.DeletionTimestamp.IsZero(),
		Draining:   p.Status.DrainingSince != nil,
		Phase:      p.Status.Phase,
		Probe:      p.Spec.Probe(),
	}
	if p.Spec.Auth != nil {
		out.Credentials, out.CredentialsMissing = creds, creds == nil
	}
	provisioned := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	out.Provisioned = provisioned != nil && provisioned.Status == metav1.ConditionTrue
	if p.Managed() {
		out.fromManaged(p, provisioned)
	} else if e := p.Spec.Endpoint; e != nil {
		// The spec is what an External proxy is: the status only repeats it, perhaps that of an older generation.
		out.Endpoint = Endpoint{Scheme: e.Scheme, Host: e.Host, Port: e.Port}
		out.Provisioned = true
	}
	if out.Endpoint.Scheme == "" {
		out.Endpoint.Scheme = v1alpha1.DefaultEndpointScheme
	}
	out.Reported = reported(p, out)
	return out
}

func (p *Proxy) fromManaged(o *v1alpha1.Proxy, provisioned *metav1.Condition) {
	p.Mode, p.Provider = v1alpha1.ModeManaged, o.Spec.Provider
	if o.Status.Instance != nil {
		p.ProviderID, p.Attempt = o.Status.ProviderID, o.Status.Instance.Attempt
	}
	p.Replacing = o.Status.ReplacingSince != nil
	p.Endpoint = Endpoint{Host: o.Status.IP, Port: o.Status.Port}
	p.ExitAddress = o.Status.ExitAddress
	if provisioned != nil {
		p.ObservedAt = provisioned.LastTransitionTime.Time
		if !p.Provisioned {
			p.Missing = provisioned.Reason
		}
	}
}

func reported(p *v1alpha1.Proxy, out *Proxy) Verdict {
	v := Verdict{Subject: out.Subject()}
	if st := p.Status; out.Mode == v1alpha1.ModeExternal && st.IP != "" {
		// The spec may have been changed since the status was written, which then speaks of another endpoint.
		v.Subject.Endpoint.Host, v.Subject.Endpoint.Port = st.IP, st.Port
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHealthy)
	if c == nil {
		return v
	}
	switch c.Status {
	case metav1.ConditionTrue:
		v.Health = Healthy
	case metav1.ConditionFalse:
		v.Health = Unhealthy
	case metav1.ConditionUnknown:
		v.Health = HealthUnknown
	}
	v.Reason, v.Message = c.Reason, c.Message
	if c.Reason == v1alpha1.ReasonSharedCauseSuspected {
		v.Held = true
		if p.Status.LatencyMillis != nil { // it was Healthy when the hold began
			v.Health = Healthy
		}
	}
	if p.Status.LatencyMillis != nil {
		v.Latency = time.Duration(*p.Status.LatencyMillis) * time.Millisecond
	}
	if p.Status.LastHealthCheckTime != nil {
		v.At = p.Status.LastHealthCheckTime.Time
	}
	return v
}
