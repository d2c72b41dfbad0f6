package gcp

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

var _ provider.Scoper = (*Provider)(nil)

// InScope implements provider.Scoper.
func (p *Provider) InScope(id string) error {
	_, err := p.placeOf("get", id)
	return err
}

// Sites is nothing: a project is one and the same, whichever endpoint leads to it.
func (p *Provider) Sites(string) []string { return nil }
