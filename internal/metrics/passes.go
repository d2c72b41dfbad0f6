package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
)

// Passes are the metrics of the reconciler.
type Passes struct {
	passes       *prometheus.CounterVec
	failures     *prometheus.CounterVec
	replacements *prometheus.CounterVec
	lost         *prometheus.CounterVec
}

func newPasses(s *set) *Passes {
	p := &Passes{
		passes: s.counter("reconcile_passes_total", "Passes over Proxies by what they saw of the instance on record and how they ended: ok, "+
			"dropped (somebody wrote in between) or error (of the API server).", "seen", "result"),
		failures: s.counter("reconcile_failures_total", "Failures that passes have met at a provider, a gate that is shut included, by the reason that the "+
			"condition Provisioned shows for them where they keep an instance from being provisioned.", "provider", "reason"),
		replacements: s.counter("replacements_total", "Instances that were withdrawn to be replaced, by why: spec, annotation, unhealthy or stopped.",
			"provider", "cause"),
		lost: s.counter("instances_lost_total", "Instances that were gone without the operator's doing.", "provider"),
	}
	for _, result := range []string{proxy.PassOK, proxy.PassDropped, proxy.PassError} {
		p.passes.WithLabelValues(proxy.Sights()[0], result) // a first error is a change from 0
	}
	return p
}

// Pass counts one pass.
func (p *Passes) Pass(seen, result string) { p.passes.WithLabelValues(seen, result).Inc() }

// Failure counts one failure at a provider.
func (p *Passes) Failure(provider, reason string) { p.failures.WithLabelValues(provider, reason).Inc() }

// Replacement counts one instance that is replaced.
func (p *Passes) Replacement(provider, cause string) {
	p.replacements.WithLabelValues(provider, cause).Inc()
}

// InstanceLost counts one instance that is gone.
func (p *Passes) InstanceLost(provider string) { p.lost.WithLabelValues(provider).Inc() }

func (p *Passes) gone(name string) {
	for _, v := range []*prometheus.CounterVec{p.failures, p.replacements, p.lost} {
		v.DeletePartialMatch(prometheus.Labels{"provider": name})
	}
}
