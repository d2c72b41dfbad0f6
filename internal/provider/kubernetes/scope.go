package kubernetes

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

var _ provider.Scoper = (*Provider)(nil)

// InScope implements provider.Scoper.
func (p *Provider) InScope(id string) error {
	_, err := p.placeOf("get", id)
	return err
}

// Sites is the API server: every cluster has namespaces of the same names.
func (p *Provider) Sites(string) []string { return []string{p.api.server} }
