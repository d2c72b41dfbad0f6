package local

import (
	"fmt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxMarks bounds in bytes what the caller decides of a record.
const maxMarks = 4096

// check refuses what can never be satisfied. op and id are those of the call that asks.
func (p *Provider) check(op, id string, req provider.CreateRequest) error {
	permanent := func(format string, args ...any) *provider.Error {
		return provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...))
	}
	const none = "%s %q: a local process has none; remove it"
	marks := len(req.UID) + len(req.Namespace) + len(req.ProxyName) + len(req.Spec)
	switch place := req.Placement; {
	case req.Name != provider.NameFromUID(req.UID):
		return permanent("name %q: want the one that belongs to UID %q", req.Name, req.UID)
	case marks > maxMarks:
		return permanent("marks: %d bytes, at most %d are allowed", marks, maxMarks)
	case req.Port < 1 || req.Port > 65535:
		return permanent("port %d: want 1 to 65535", req.Port)
	case req.CloudInit != "":
		return permanent("cloudInit: a local process has none; remove spec.cloudInit")
	case place.Zone != "" && place.Zone != p.host:
		return permanent("placement.zone %q: this provider runs on host %q alone", place.Zone, p.host)
	case place.Region != "":
		return permanent(none, "placement.region", place.Region)
	case place.MachineType != "":
		return permanent(none, "placement.machineType", place.MachineType)
	case place.Image != "":
		return permanent(none, "placement.image", place.Image)
	}
	if req.Credentials != nil {
		if err := checkCredentials(*req.Credentials); err != nil {
			return permanent("%w", err)
		}
		return nil
	}
	if len(p.config.AllowClients) == 0 && p.reachable() {
		return permanent("spec.auth: the pool listens on addresses that others can reach, and neither credentials nor allowClients restrict who may use the proxy").
			WithReason(provider.ReasonOpenProxyRefused)
	}
	return nil
}

// reachable reports whether the pool has a listen address other than loopback. One such slot is enough: which one an
// instance gets depends on what is free.
func (p *Provider) reachable() bool {
	for _, r := range p.pool {
		if !r.loopback() {
			return true
		}
	}
	return false
}
