package client

import (
	"net/url"
	"time"
)

// Proxy is one proxy as the server described it: a snapshot, which nobody may change.
type Proxy struct {
	// Namespace and Name are those of the Proxy object.
	Namespace, Name string
	// URL is scheme://host:port without credentials; empty while the proxy has no address.
	URL string
	// IP and Port are its parts; IP may be a DNS name.
	IP   string
	Port int
	// Provider is the name of the provider entry it comes from; empty for an External proxy.
	Provider string
	// Mode is Managed or External.
	Mode string
	// Attributes are what selectors match.
	Attributes map[string]string
	// Phase is that of the object: Ready, for example.
	Phase string
	// Healthy: the last verdict speaks of exactly this instance, address and credentials, and is good.
	Healthy bool
	// Latency of the last probe that succeeded, to the millisecond and never 0 when known; 0 when unknown.
	Latency time.Duration
	// ExitAddress is the IP address that targets see; empty when unknown.
	ExitAddress string
	// ActiveLeases counts the leases of everybody, MaxConcurrentLeases is their bound; 0 for none.
	ActiveLeases, MaxConcurrentLeases int
	// Cordoned: it is offered to nobody.
	Cordoned bool
	// Auth is what the proxy asks of its clients. nil when it asks nothing, when the API is open, and outside of leases.
	Auth *Credentials
}

// Credentials are a user name and password for a proxy (HTTP Basic).
type Credentials struct {
	Username string
	// Password shows itself in no log and no encoding, see Secret.
	Password Secret
}

// proxyURL returns the URL with the credentials in it; nil when the proxy has no address.
func (p *Proxy) proxyURL() *url.URL {
	u, err := url.Parse(p.URL)
	if err != nil || p.URL == "" {
		return nil
	}
	if p.Auth != nil {
		u.User = url.UserPassword(p.Auth.Username, p.Auth.Password.Reveal())
	}
	return u
}
