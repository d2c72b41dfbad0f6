package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Calls are the metrics of calls to providers.
type Calls struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

func newCalls(s *set) *Calls {
	return &Calls{
		requests: s.counter("provider_requests_total", "Calls to a provider by operation and class of the result.", "provider", "op", "result"),
		duration: s.histogram("provider_request_duration_seconds", "Duration of calls to a provider.", prometheus.ExponentialBuckets(0.005, 2, 14), "provider", "op"),
		refused: s.counter("provider_calls_refused_total", "Calls to a provider that were not made, by why: busy (as many are in flight as may be), "+
			"unreachable or denied (the target's gate is shut), retired (the entry was being replaced).", "provider", "why"),
	}
}

// ProviderRequest counts one call.
func (c *Calls) ProviderRequest(provider, op, result string, d time.Duration) {
	c.requests.WithLabelValues(provider, op, result).Inc()
	c.duration.WithLabelValues(provider, op).Observe(d.Seconds())
}

// CallRefused counts one call that was not made.
func (c *Calls) CallRefused(provider, why string) { c.refused.WithLabelValues(provider, why).Inc() }

func (c *Calls) gone(name string) {
	labels := prometheus.Labels{"provider": name}
	c.requests.DeletePartialMatch(labels)
	c.duration.DeletePartialMatch(labels)
	c.refused.DeletePartialMatch(labels)
}

// Providers lists the configured provider entries.
type Providers interface {
	All() []registry.Handle
}

// RegisterGuards registers with r what the guards of the providers know; they are asked at every scrape.
func RegisterGuards(r prometheus.Registerer, all Providers) error {
	s := &set{r: r}
	s.add(guards{all})
	return s.err()
}

type guards struct{ Providers }

func callsDesc() *prometheus.Desc {
	return described("provider_calls_in_flight", "Calls to a provider that are under way, and passes that keep a place for their next.", "provider")
}

func gatesDesc() *prometheus.Desc {
	return described("provider_gates_shut", "Targets of a provider that are left alone because they do not answer (unreachable) or do not accept the "+
		"operator (denied). Lists count as one.", "provider", "cause")
}

// Describe implements prometheus.Collector.
func (guards) Describe(out chan<- *prometheus.Desc) {
	out <- callsDesc()
	out <- gatesDesc()
}

// Collect implements prometheus.Collector.
func (g guards) Collect(out chan<- prometheus.Metric) {
	for _, h := range g.All() {
		s, ok := instrument.StatsOf(h.Provider)
		if !ok {
			continue
		}
		out <- gaugeOf(callsDesc(), s.InFlight, h.Name)
		out <- gaugeOf(gatesDesc(), s.Unreachable, h.Name, instrument.RefusedUnreachable)
		out <- gaugeOf(gatesDesc(), s.Denied, h.Name, instrument.RefusedDenied)
	}
}
