package main

import (
	"errors"
	"runtime/debug"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
)

// gauges registers what is looked up when metrics are scraped.
func (a *app) gauges(engine *health.Engine, api *discovery.Server, p principals) error {
	r := ctrlmetrics.Registry
	errs := []error{
		metrics.RegisterEngine(r, engine),
		metrics.RegisterGuards(r, a.providers),
		metrics.RegisterConnections(r, api.Connections),
		metrics.RegisterProcess(r, metrics.Build{Version: versionText(), Revision: revision()}, a.leading),
	}
	if p.file != nil {
		errs = append(errs, metrics.RegisterTokens(r, p.file.Accepted))
	}
	return errors.Join(errs...)
}

// revision is the commit that the binary was built from, as far as it is known.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
