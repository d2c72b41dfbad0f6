package local

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

var _ provider.Scoper = (*Provider)(nil)

// InScope implements provider.Scoper.
func (p *Provider) InScope(id string) error {
	_, err := p.nameOf("get", id)
	return err
}

// Sites is the folder of records: the host's name alone does not say where they are.
func (p *Provider) Sites(string) []string { return []string{p.dir} }
