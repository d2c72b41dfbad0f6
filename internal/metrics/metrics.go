// Package metrics registers the operator's own metrics and feeds them. Only cmd imports it: every consumer declares the
// few-method recorder it needs, and Metrics satisfies them all.
//
// What changes by itself is counted as it happens; what is, is looked up when it is scraped, for gauges that every event
// adjusts drift sooner or later. Labels have few values, none of which comes from a request; series that are about an object
// or an entry end with it.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

const prefix = "proxy_operator_"

// Metrics are those that are fed.
type Metrics struct {
	*Leases
	*Requests
	*Probes
	*Passes
	*Calls
	*Lists
	*Collection
	*Events
}

// New registers with r all metrics that are fed, and those about the fleet and its leases. stats is asked at every scrape.
func New(r prometheus.Registerer, store *fleet.Store, stats func() lease.Stats) (*Metrics, error) {
	s := &set{r: r}
	m := &Metrics{
		Leases: newLeases(s), Requests: newRequests(s), Probes: newProbes(s), Passes: newPasses(s), Calls: newCalls(s), Lists: newLists(s),
		Collection: newCollection(s), Events: newEvents(s),
	}
	s.add(proxies{store}, ledger{stats})
	return m, s.err()
}

// ProviderGone drops the series of an entry that was taken out.
func (m *Metrics) ProviderGone(name string) {
	m.Calls.gone(name)
	m.Lists.gone(name)
	m.Passes.gone(name)
	m.Collection.ProviderGone(name)
}

// set registers metrics and keeps what went wrong.
type set struct {
	r    prometheus.Registerer
	errs []error
}

func (s *set) err() error { return errors.Join(s.errs...) }

func (s *set) add(all ...prometheus.Collector) {
	for _, c := range all {
		if err := s.r.Register(c); err != nil {
			s.errs = append(s.errs, err)
		}
	}
}

func (s *set) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	s.add(v)
	return v
}

func (s *set) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	s.add(v)
	return v
}

func (s *set) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	s.add(v)
	return v
}

// value registers a gauge that is looked up at every scrape.
func (s *set) value(name, help string, of func() float64) {
	s.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, of))
}

// described is the description of a metric that a collector of our own makes.
func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

func gaugeOf(d *prometheus.Desc, value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func counterOf(d *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}
