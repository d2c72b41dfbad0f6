package kubernetes

import (
	"k8s.io/client-go/rest"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Visibility is the provider's own bound.
const Visibility = visibility

// NewOn is New for a given API server, with small pages.
func NewOn(opts provider.Options, cluster *rest.Config) (*Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	p, err := newProvider(opts, c, cluster)
	if err == nil {
		p.pageSize = 3
	}
	return p, err
}
