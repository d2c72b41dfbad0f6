package kvm

import (
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

var _ provider.Scoper = (*Provider)(nil)

// InScope implements provider.Scoper.
func (p *Provider) InScope(id string) error {
	_, _, err := p.placeOf("get", id)
	return err
}

// Sites are the ways to tell a hypervisor from another one of the same name: where it is, and its UUID where the entry has it.
// So a host in use may get another address once its hostUUID is in the entry.
func (p *Provider) Sites(id string) []string {
	_, h, err := p.placeOf("get", id)
	if err != nil {
		return nil
	}
	sites := []string{"address " + strings.ToLower(h.config.Address) + " " + h.config.Socket}
	if h.config.HostUUID != "" {
		sites = append(sites, "uuid "+h.config.HostUUID)
	}
	return sites
}
