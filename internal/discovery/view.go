package discovery

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// proxyView is a proxy as clients see it. Members without a value are left out.
type proxyView struct {
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	URL        string            `json:"url,omitzero"`
	IP         string            `json:"ip,omitzero"`
	Port       int32             `json:"port,omitzero"`
	Provider   string            `json:"provider,omitzero"`
	Mode       string            `json:"mode"`
	Attributes map[string]string `json:"attributes"`
	Phase      string            `json:"phase"`
	// Healthy: the last verdict speaks of this instance, address and credentials, and is good.
	Healthy       bool   `json:"healthy"`
	LatencyMillis *int64 `json:"latencyMillis,omitzero"`
	ExitAddress   string `json:"exitAddress,omitzero"`
	ActiveLeases  int    `json:"activeLeases"`
	// MaxConcurrentLeases is left out when there is no bound.
	MaxConcurrentLeases int32 `json:"maxConcurrentLeases,omitzero"`
	Cordoned            bool  `json:"cordoned"`
}

func healthy(p *fleet.Proxy) bool {
	return p.Verdict.Health == fleet.Healthy && p.Verdict.Subject == p.Subject()
}

func viewProxy(p *fleet.Proxy, live int) proxyView {
	v := proxyView{
		Namespace: p.Key.Namespace, Name: p.Key.Name,
		Provider: p.Provider, Mode: string(p.Mode), Attributes: p.Attributes, Phase: string(p.Phase),
		Healthy: healthy(p), ExitAddress: p.ExitAddress,
		ActiveLeases: live, MaxConcurrentLeases: p.Cap, Cordoned: p.Cordoned,
	}
	if p.Endpoint.Host != "" && p.Endpoint.Port != 0 {
		v.URL, v.IP, v.Port = p.Endpoint.URL(), p.Endpoint.Host, p.Endpoint.Port
	}
	if v.Attributes == nil {
		v.Attributes = map[string]string{}
	}
	if p.Verdict.Latency > 0 && p.Verdict.Subject == p.Subject() {
		millis := p.Verdict.Latency.Milliseconds()
		v.LatencyMillis = &millis
	}
	return v
}

// leaseView is a lease as its holder sees it.
type leaseView struct {
	LeaseID string      `json:"leaseID"`
	Proxy   leasedProxy `json:"proxy"`
	// ExpiresAt is cut to the millisecond, so a client that trusts it never trusts a dead lease.
	ExpiresAt  string `json:"expiresAt"`
	TTLSeconds int64  `json:"ttlSeconds"`
	Epoch      string `json:"epoch"`
}

type leasedProxy struct {
	proxyView
	Auth *authView `json:"auth,omitzero"`
}

type authView struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (s *Server) viewLease(l lease.Lease) *leaseView {
	v := &leaseView{
		LeaseID: l.ID, Proxy: leasedProxy{proxyView: viewProxy(l.Proxy, l.Live)},
		ExpiresAt: timestamp(l.ExpiresAt), TTLSeconds: max(1, int64(l.TTL/time.Second)), Epoch: s.o.Ledger.Epoch(),
	}
	if c := l.Proxy.Credentials; c != nil && s.auth.required() {
		v.Proxy.Auth = &authView{Username: c.Username, Password: c.Password}
	}
	return v
}

// timestamp formats t as RFC 3339 in UTC with milliseconds, cut rather than rounded.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
