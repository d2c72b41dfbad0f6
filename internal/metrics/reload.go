package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads are the metrics of the providers' configuration.
type Reloads struct {
	total      *prometheus.CounterVec
	successful prometheus.Gauge
	refused    prometheus.Gauge
	succeeded  prometheus.Gauge
}

// NewReloads registers them with r. start is when the configuration was read that is in force.
func NewReloads(r prometheus.Registerer, start time.Time) (*Reloads, error) {
	m := &Reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "provider_config_reloads_total",
			Help: "Reads of a changed providers' configuration by result: success, refused (but for some entries), invalid or unreadable.",
		}, []string{"result"}),
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "provider_config_last_reload_successful", Help: "1 while what the providers' configuration says is in force, else 0.",
		}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "provider_config_refused_entries", Help: "Entries of the providers' configuration that are refused and stay as they were.",
		}),
		succeeded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "provider_config_last_reload_success_timestamp_seconds",
			Help: "When what the providers' configuration says was last put in force.",
		}),
	}
	for _, c := range []prometheus.Collector{m.total, m.successful, m.refused, m.succeeded} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	for _, result := range []string{"success", "refused", "invalid", "unreadable"} {
		m.total.WithLabelValues(result) // a first failure is a change from 0
	}
	m.successful.Set(1)
	m.succeeded.Set(float64(start.Unix()))
	return m, nil
}

// Reloaded counts one reload.
func (m *Reloads) Reloaded(result string, refused int, at time.Time) {
	m.total.WithLabelValues(result).Inc()
	m.refused.Set(float64(refused))
	if result != "success" {
		m.successful.Set(0)
		return
	}
	m.successful.Set(1)
	m.succeeded.Set(float64(at.Unix()))
}
