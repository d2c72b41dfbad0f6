package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ProviderHealth are the metrics of the checks of providers. They are apart from the others because the leader alone feeds
// them.
type ProviderHealth struct {
	up       *prometheus.GaugeVec
	duration *prometheus.GaugeVec
	checked  *prometheus.GaugeVec
}

// NewProviderHealth registers the metrics with r.
func NewProviderHealth(r prometheus.Registerer) (*ProviderHealth, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, []string{"provider", "target"})
	}
	p := &ProviderHealth{
		up:       gauge("provider_target_up", "1 while the target of a provider is ready, else 0."),
		duration: gauge("provider_check_duration_seconds", "How long the target took to answer the last check."),
		checked:  gauge("provider_check_timestamp_seconds", "When the target was last checked."),
	}
	for _, c := range p.all() {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *ProviderHealth) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{p.up, p.duration, p.checked}
}

// TargetChecked shows how a target is, how long it took to answer, and when that was.
func (p *ProviderHealth) TargetChecked(provider, target string, up bool, took time.Duration, at time.Time) {
	value := 0.0
	if up {
		value = 1
	}
	p.up.WithLabelValues(provider, target).Set(value)
	p.duration.WithLabelValues(provider, target).Set(took.Seconds())
	p.checked.WithLabelValues(provider, target).Set(float64(at.Unix()))
}

// TargetGone drops the series of a target.
func (p *ProviderHealth) TargetGone(provider, target string) {
	for _, v := range p.all() {
		v.DeleteLabelValues(provider, target)
	}
}

// ProviderGone drops the series of all targets of a provider.
func (p *ProviderHealth) ProviderGone(provider string) {
	for _, v := range p.all() {
		v.DeletePartialMatch(prometheus.Labels{"provider": provider})
	}
}
