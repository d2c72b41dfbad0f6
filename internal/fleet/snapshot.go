package fleet

import (
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Endpoint is where clients reach a proxy.
type Endpoint struct {
	Scheme string
	// Host is an address without brackets or a DNS name; empty while there is none.
	Host string
	Port int32
}

// Address returns host:port with brackets where IPv6 needs them.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// URL returns scheme://host:port without credentials.
func (e Endpoint) URL() string { return e.Scheme + "://" + e.Address() }

// Subject is exactly what a verdict speaks of. A verdict about another subject says nothing about this one.
type Subject struct {
	UID                string
	Attempt            int64
	Endpoint           Endpoint
	CredentialRevision string
}

// LeaseKey is what leases and cooldowns belong to: a new instance (or endpoint, for External) starts with neither; a
// rotation of credentials forgets nothing.
type LeaseKey struct {
	UID     string
	Attempt int64
	// Endpoint is set for External proxies alone.
	Endpoint Endpoint
}

// Health is the outcome of probing.
type Health int

// The outcomes. HealthUnknown: not probed yet.
const (
	HealthUnknown Health = iota
	Healthy
	Unhealthy
)

// Verdict is what the health engine says of one subject.
type Verdict struct {
	Subject Subject
	Health  Health
	// Held: the proxy's probes fail, but so do most others and what does not need a proxy, so Health is kept as it was.
	Held bool
	// Reason is one of the reasons of the Healthy condition.
	Reason string
	// Message is deterministic and free of secrets.
	Message string
	// Latency of the last reported successful probe; 0 when there is none.
	Latency time.Duration
	// At is when the probe that led to this report ended.
	At time.Time
}

// Withheld says why a proxy is offered to nobody.
type Withheld string

// The reasons for which a proxy is withheld; WithheldNot means that it is offered.
const (
	WithheldNot         Withheld = ""
	WithheldDeleting    Withheld = "deleting"
	WithheldCordoned    Withheld = "cordoned"
	WithheldDraining    Withheld = "draining"
	WithheldUnavailable Withheld = "not provisioned"
	WithheldCredentials Withheld = "credentials unreadable"
	WithheldUnprobed    Withheld = "not probed"
	WithheldUnhealthy   Withheld = "unhealthy"
	WithheldAddress     Withheld = "address claimed by another proxy"
	WithheldGone        Withheld = "instance gone"
)

// WithheldAll returns every reason but WithheldNot.
func WithheldAll() []Withheld {
	return []Withheld{
		WithheldDeleting, WithheldCordoned, WithheldDraining, WithheldUnavailable, WithheldCredentials, WithheldUnprobed, WithheldUnhealthy,
		WithheldAddress, WithheldGone,
	}
}

// Proxy is an immutable snapshot of one Proxy object. Nobody may change it or what it points to.
type Proxy struct {
	Key        types.NamespacedName
	UID        string
	Generation int64
	Mode       v1alpha1.Mode
	Provider   string
	// ProviderID and Attempt are those of the recorded instance; "" and 0 for External and before the first.
	ProviderID  string
	Attempt     int64
	Endpoint    Endpoint
	ExitAddress string
	Attributes  map[string]string
	// Cap bounds the leases at one time; 0 for no bound.
	Cap      int32
	Cordoned bool
	Deleting bool
	Draining bool
	// Replacing: the instance is being replaced and holds one of its provider's places until the new one is healthy.
	Replacing bool
	// Provisioned mirrors the condition: the instance is there and is the one on record.
	Provisioned bool
	// Missing is the reason of that condition while a Managed Proxy is not provisioned, empty for the first pass and for all
	// others.
	Missing string
	Phase   v1alpha1.Phase
	Probe   v1alpha1.Probe
	// Credentials are what the proxy asks of clients; nil when the spec names none or they cannot be read.
	Credentials *provider.Credentials
	// Next are the credentials that the spec names by now, while the proxy is still offered with those from before; nil
	// otherwise.
	Next *provider.Credentials
	// CredentialsMissing: the spec names credentials that cannot be read.
	CredentialsMissing bool
	// ObservedAt is when the endpoint was last seen to belong to the instance; it decides between two claims.
	ObservedAt time.Time
	// Reported is what the object's status says of its health, for seeding after a restart. Its Subject is another than
	// the current one where the status is older than the spec.
	Reported Verdict
	// Verdict is the engine's, about the current subject; its Health is HealthUnknown when there is none.
	Verdict Verdict
	// AddressLost: another Managed Proxy claims the endpoint and was observed later.
	AddressLost bool
	// Gone: the backend told that the instance on record no longer serves at Endpoint. Who answers there now is unknown.
	Gone bool
}

// Subject returns what a verdict about p must speak of.
func (p *Proxy) Subject() Subject {
	s := Subject{UID: p.UID, Attempt: p.Attempt, Endpoint: p.Endpoint}
	if p.Credentials != nil {
		s.CredentialRevision = p.Credentials.Revision
	}
	return s
}

// LeaseKey returns what leases and cooldowns of p belong to.
func (p *Proxy) LeaseKey() LeaseKey {
	if p.Mode == v1alpha1.ModeExternal {
		return LeaseKey{UID: p.UID, Endpoint: p.Endpoint}
	}
	return LeaseKey{UID: p.UID, Attempt: p.Attempt}
}

// Probeable reports whether there is something to probe. A draining or cordoned proxy is; one being deleted is not. Nor is
// one whose instance is gone: the probe and its credentials would go to whoever has the address now.
func (p *Proxy) Probeable() bool {
	return p.Endpoint.Host != "" && p.Endpoint.Port != 0 && !p.Deleting && !p.CredentialsMissing && !p.Gone
}

// Withheld says why p is offered to nobody, WithheldNot when it is offered.
func (p *Proxy) Withheld() Withheld {
	switch {
	case p.Deleting:
		return WithheldDeleting
	case p.Draining:
		return WithheldDraining
	case p.Cordoned:
		return WithheldCordoned
	case !p.Provisioned || p.Endpoint.Host == "":
		return WithheldUnavailable
	case p.CredentialsMissing:
		return WithheldCredentials
	case p.Gone:
		return WithheldGone
	case p.AddressLost:
		return WithheldAddress
	case p.Verdict.Subject != p.Subject() || p.Verdict.Health == HealthUnknown:
		return WithheldUnprobed
	case p.Verdict.Health != Healthy:
		return WithheldUnhealthy
	}
	return WithheldNot
}

// Matches reports whether p carries every attribute of selector with that value. An empty selector matches all.
func (p *Proxy) Matches(selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := p.Attributes[k]; !ok || got != v {
			return false
		}
	}
	return true
}
