// Package metrics registers the operator's own metrics and feeds them. Only cmd imports it: every consumer declares the
// few-method recorder it needs, and Metrics satisfies them all.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const prefix = "proxy_operator_"

// Metrics are the fed vectors and the scrape-time collectors.
type Metrics struct {
	providerRequests *prometheus.CounterVec
	providerDuration *prometheus.HistogramVec
	probes           prometheus.Histogram
	probeLast        *prometheus.GaugeVec
	probeFailures    *prometheus.CounterVec
	targetRefusals   *prometheus.CounterVec
	sharedCauses     prometheus.Gauge
	leaseRequests    *prometheus.CounterVec
	orphansDeleted   *prometheus.CounterVec
	gcFailures       *prometheus.CounterVec
	gcHeld           *prometheus.GaugeVec
	gcSwept          prometheus.Gauge
}

// New registers all metrics with r. leases is asked at every scrape and must not block.
func New(r prometheus.Registerer, store *fleet.Store, leases func() int) (*Metrics, error) {
	m := &Metrics{
		providerRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "provider_requests_total", Help: "Provider calls by operation and class of the result.",
		}, []string{"provider", "op", "result"}),
		providerDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "provider_request_duration_seconds", Help: "Duration of provider calls.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}, []string{"provider", "op"}),
		probes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "healthcheck_duration_seconds", Help: "Duration of probes, the whole fleet's.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}),
		probeLast: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "healthcheck_last_duration_seconds", Help: "Duration of the last probe of a proxy.",
		}, []string{"namespace", "proxy"}),
		probeFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "healthcheck_failures_total", Help: "Failed probes of a proxy.",
		}, []string{"namespace", "proxy"}),
		targetRefusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "healthcheck_target_refusals_total", Help: "Probes of a proxy whose target answered 401, 403 or 429 through it.",
		}, []string{"namespace", "proxy"}),
		leaseRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "lease_requests_total", Help: "Requests for a lease by how they ended.",
		}, []string{"outcome"}),
	}
	m.sharedCauses = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "healthcheck_shared_causes", Help: "Probe URLs whose verdicts are held because most proxies and the judge URL fail.",
	})
	m.orphansDeleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "orphans_deleted_total", Help: "Orphaned instances that were deleted.",
	}, []string{"provider"})
	m.gcFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "gc_failures_total", Help: "Failures of the orphan collector by what it was about to do.",
	}, []string{"provider", "op"})
	m.gcHeld = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "gc_breaker_held", Help: "Orphans that the breaker holds; the digest releases exactly that set.",
	}, []string{"provider", "digest"})
	m.gcSwept = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "gc_last_sweep_timestamp_seconds", Help: "When the last sweep ended.",
	})
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "leases_active", Help: "Leases held at this moment.",
	}, func() float64 { return float64(leases()) })
	for _, c := range []prometheus.Collector{
		m.providerRequests, m.providerDuration, m.probes, m.probeLast, m.probeFailures, m.targetRefusals, m.sharedCauses, m.leaseRequests, active, phases{store},
		m.orphansDeleted, m.gcFailures, m.gcHeld, m.gcSwept,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ProviderRequest counts one provider call.
func (m *Metrics) ProviderRequest(provider, op, result string, d time.Duration) {
	m.providerRequests.WithLabelValues(provider, op, result).Inc()
	m.providerDuration.WithLabelValues(provider, op).Observe(d.Seconds())
}

// ObserveProbe counts one probe.
func (m *Metrics) ObserveProbe(namespace, name string, took time.Duration, ok bool, _ string) {
	m.probes.Observe(took.Seconds())
	m.probeLast.WithLabelValues(namespace, name).Set(took.Seconds())
	failures := m.probeFailures.WithLabelValues(namespace, name)
	if !ok {
		failures.Inc()
	}
}

// ObserveTargetRefusal counts one probe that passed through the proxy to a target that refused it.
func (m *Metrics) ObserveTargetRefusal(namespace, name string) {
	m.targetRefusals.WithLabelValues(namespace, name).Inc()
}

// SetSharedCauses shows for how many probe URLs verdicts are held.
func (m *Metrics) SetSharedCauses(urls int) { m.sharedCauses.Set(float64(urls)) }

// Forget drops the series of one proxy.
func (m *Metrics) Forget(namespace, name string) {
	m.probeLast.DeleteLabelValues(namespace, name)
	m.probeFailures.DeleteLabelValues(namespace, name)
	m.targetRefusals.DeleteLabelValues(namespace, name)
}

// LeaseRequest counts one request for a lease.
func (m *Metrics) LeaseRequest(outcome string) { m.leaseRequests.WithLabelValues(outcome).Inc() }

// OrphanDeleted counts one deleted orphan.
func (m *Metrics) OrphanDeleted(provider string) { m.orphansDeleted.WithLabelValues(provider).Inc() }

// CollectionFailed counts one failure of the orphan collector.
func (m *Metrics) CollectionFailed(provider, op string) {
	m.gcFailures.WithLabelValues(provider, op).Inc()
}

// BreakerHeld shows how many orphans of a provider the breaker holds; with none the series goes.
func (m *Metrics) BreakerHeld(provider string, held int, digest string) {
	m.gcHeld.DeletePartialMatch(prometheus.Labels{"provider": provider})
	if held > 0 {
		m.gcHeld.WithLabelValues(provider, digest).Set(float64(held))
	}
}

// Swept notes when a sweep ended.
func (m *Metrics) Swept(at time.Time) { m.gcSwept.Set(float64(at.Unix())) }

// phases counts proxies at scrape time: gauges that every reconcile adjusts drift sooner or later.
type phases struct{ store *fleet.Store }

func phaseDesc() *prometheus.Desc {
	return prometheus.NewDesc(prefix+"proxies", "Proxies by phase.", []string{"phase"}, nil)
}

// Describe implements prometheus.Collector.
func (phases) Describe(out chan<- *prometheus.Desc) { out <- phaseDesc() }

// Collect implements prometheus.Collector.
func (p phases) Collect(out chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, proxy := range p.store.Select("", nil) {
		phase := string(proxy.Phase)
		if phase == "" {
			phase = "Pending"
		}
		counts[phase]++
	}
	for phase, n := range counts {
		out <- prometheus.MustNewConstMetric(phaseDesc(), prometheus.GaugeValue, float64(n), phase)
	}
}
