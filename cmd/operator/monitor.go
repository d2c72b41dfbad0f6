package main

import (
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

// monitor checks the providers and shows how they are. problem says why an entry is not what the file says.
func (a *app) monitor(problem func(entry string) string) (*providerhealth.Monitor, error) {
	recorder, err := metrics.NewProviderHealth(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	return providerhealth.New(providerhealth.Options{
		Providers: a.providers, Live: a.mgr.GetAPIReader(), Client: a.mgr.GetClient(), Clock: a.clock, Owner: a.owner,
		Interval: a.o.checkInterval, ReportInterval: a.o.reportInterval,
		OnCheck:       func(h registry.Handle) func([]provider.TargetStatus) { return instrument.Begin(h.Provider) },
		ConfigProblem: problem, Secrets: message.NewSecrets([]string{a.o.discoveryToken}, nil),
		Metrics: recorder, Events: a.events,
	})
}
