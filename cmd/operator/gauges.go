package main

import (
	"errors"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/version"
)

// gauges registers what is looked up when metrics are scraped.
func (a *app) gauges(engine *health.Engine, api *discovery.Server, p principals) error {
	r := ctrlmetrics.Registry
	errs := []error{
		metrics.RegisterEngine(r, engine),
		metrics.RegisterGuards(r, a.providers),
		metrics.RegisterManaged(r, a.store, a.managed),
		metrics.RegisterConnections(r, api.Connections),
		metrics.RegisterSpans(r, a.spans),
		metrics.RegisterProcess(r, metrics.Build{Version: version.Text(), Revision: version.Commit()}, a.leading),
	}
	if len(a.certificates) > 0 {
		errs = append(errs, metrics.RegisterCertificates(r, a.certificates))
	}
	if p.file != nil {
		errs = append(errs, metrics.RegisterTokens(r, p.file.Accepted))
	}
	return errors.Join(errs...)
}

// managed reports whether the operator looks after Proxies of that namespace at that provider. It does not block.
func (a *app) managed(namespace, provider string) bool {
	h, ok := a.providers.Lookup(provider)
	return ok && h.Allowed(namespace)
}
