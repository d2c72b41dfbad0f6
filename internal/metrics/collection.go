package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collection are the metrics of the orphan collector.
type Collection struct {
	deleted  *prometheus.CounterVec
	failures *prometheus.CounterVec
	orphans  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	swept    prometheus.Gauge
	took     prometheus.Gauge
}

func newCollection(s *set) *Collection {
	c := &Collection{
		deleted: s.counter("orphans_deleted_total", "Orphaned instances that were deleted.", "provider"),
		failures: s.counter("gc_failures_total", "Failures of the orphan collector by what it was about to do: list, read or delete, or proxies "+
			"(of no provider), for which the whole sweep is skipped.", "provider", "op"),
		orphans: s.gauge("gc_orphans", "Instances without a Proxy in the last sweep, also those that may not be deleted yet.", "provider"),
		held:    s.gauge("gc_breaker_held", "Orphans that the breaker holds; the digest releases exactly that set.", "provider", "digest"),
		swept:   prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "gc_last_sweep_timestamp_seconds", Help: "When the last sweep ended."}),
		took:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "gc_sweep_duration_seconds", Help: "How long the last sweep took."}),
	}
	s.add(c.swept, c.took)
	c.failures.WithLabelValues("", "proxies") // a first failure is a change from 0
	return c
}

// OrphanDeleted counts one deleted orphan.
func (c *Collection) OrphanDeleted(provider string) { c.deleted.WithLabelValues(provider).Inc() }

// CollectionFailed counts one failure of the orphan collector.
func (c *Collection) CollectionFailed(provider, op string) {
	c.failures.WithLabelValues(provider, op).Inc()
}

// Orphans shows how many instances had no Proxy.
func (c *Collection) Orphans(provider string, found int) {
	c.orphans.WithLabelValues(provider).Set(float64(found))
}

// BreakerHeld shows how many orphans of a provider the breaker holds; with none the series goes.
func (c *Collection) BreakerHeld(provider string, held int, digest string) {
	c.held.DeletePartialMatch(prometheus.Labels{"provider": provider})
	if held > 0 {
		c.held.WithLabelValues(provider, digest).Set(float64(held))
	}
}

// ProviderGone drops the series of a provider.
func (c *Collection) ProviderGone(provider string) {
	labels := prometheus.Labels{"provider": provider}
	c.orphans.DeletePartialMatch(labels)
	c.held.DeletePartialMatch(labels)
	c.deleted.DeletePartialMatch(labels)
	c.failures.DeletePartialMatch(labels)
}

// Swept notes when a sweep ended and how long it took.
func (c *Collection) Swept(at time.Time, took time.Duration) {
	c.swept.Set(seconds(at))
	c.took.Set(took.Seconds())
}
