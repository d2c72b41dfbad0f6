package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Lists are the metrics of what is observed of instances in the steady state.
type Lists struct {
	instances *prometheus.GaugeVec
	at        *prometheus.GaugeVec
	failures  *prometheus.CounterVec
}

func newLists(s *set) *Lists {
	return &Lists{
		instances: s.gauge("observed_instances", "Instances in the last list of a provider, those of other installations included.", "provider"),
		at:        s.gauge("observation_timestamp_seconds", "When the last list of a provider that succeeded began.", "provider"),
		failures:  s.counter("observation_failures_total", "Lists of a provider that failed.", "provider"),
	}
}

// Listed notes a list that succeeded.
func (l *Lists) Listed(provider string, instances int, began time.Time) {
	l.instances.WithLabelValues(provider).Set(float64(instances))
	l.at.WithLabelValues(provider).Set(seconds(began))
	l.failures.WithLabelValues(provider) // a first failure is a change from 0
}

// ListFailed counts a list that did not.
func (l *Lists) ListFailed(provider string) { l.failures.WithLabelValues(provider).Inc() }

func (l *Lists) gone(name string) {
	l.instances.DeleteLabelValues(name)
	l.at.DeleteLabelValues(name)
	l.failures.DeleteLabelValues(name)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
