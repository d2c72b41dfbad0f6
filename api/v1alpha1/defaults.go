package v1alpha1

import (
	"strings"
	"time"

	"k8s.io/utils/ptr"
)

// Defaults that are applied by the helpers below and never stored.
const (
	DefaultPort             int32 = 3128
	DefaultCloudInitKey           = "user-data"
	DefaultProbeURL               = "https://www.gstatic.com/generate_204"
	DefaultProbeInterval          = 30 * time.Second
	DefaultProbeTimeout           = 10 * time.Second
	DefaultSuccessThreshold int32 = 1
	DefaultFailureThreshold int32 = 3
	DefaultEndpointScheme         = "http"
)

// Managed says whether the operator keeps the instance of p. A Proxy without a mode (one that never passed the API
// server's defaulting) counts as Managed.
func (p *Proxy) Managed() bool { return p.Spec.Mode != ModeExternal }

// ListenPort returns the port on which a Managed proxy is to listen.
func (s *ProxySpec) ListenPort() int32 { return ptr.Deref(s.Port, DefaultPort) }

// LeaseCap returns the most leases at one time, 0 for no bound.
func (s *ProxySpec) LeaseCap() int32 { return ptr.Deref(s.MaxConcurrentLeases, 0) }

// AttributeMap returns the attributes as plain strings. The result is the caller's own.
func (s *ProxySpec) AttributeMap() map[string]string {
	out := make(map[string]string, len(s.Attributes))
	for k, v := range s.Attributes {
		out[k] = string(v)
	}
	return out
}

// SecretKey returns the key of a cloud-init Secret to read.
func (r *SecretKeyRef) SecretKey() string {
	if r.Key == "" {
		return DefaultCloudInitKey
	}
	return r.Key
}

// Probe is a health check with every default applied.
type Probe struct {
	URL string
	// ExpectedStatus is one HTTP status, or 0 for any 2xx.
	ExpectedStatus     int
	Interval           time.Duration
	Timeout            time.Duration
	SuccessThreshold   int
	FailureThreshold   int
	CABundle           []byte
	InsecureSkipVerify bool
}

// Probe returns the health check of s with every default applied.
func (s *ProxySpec) Probe() Probe {
	hc := ptr.Deref(s.HealthCheck, HealthCheck{})
	out := Probe{
		URL:              hc.URL,
		ExpectedStatus:   int(ptr.Deref(hc.ExpectedStatus, 0)),
		Interval:         DefaultProbeInterval,
		SuccessThreshold: int(ptr.Deref(hc.SuccessThreshold, DefaultSuccessThreshold)),
		FailureThreshold: int(ptr.Deref(hc.FailureThreshold, DefaultFailureThreshold)),
	}
	if out.URL == "" {
		out.URL = DefaultProbeURL
	}
	// Only the default URL has a known answer; comparing the text also covers a user who spells it out.
	if out.ExpectedStatus == 0 && strings.EqualFold(out.URL, DefaultProbeURL) {
		out.ExpectedStatus = 204
	}
	if hc.Interval != nil {
		out.Interval = hc.Interval.Duration.Duration
	}
	out.Timeout = min(DefaultProbeTimeout, out.Interval)
	if hc.Timeout != nil {
		out.Timeout = hc.Timeout.Duration.Duration
	}
	if hc.TLS != nil {
		out.CABundle, out.InsecureSkipVerify = hc.TLS.CABundle, hc.TLS.InsecureSkipVerify
	}
	return out
}
