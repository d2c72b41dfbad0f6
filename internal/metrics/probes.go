package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/health"
)

// Probes are the metrics of the health engine.
type Probes struct {
	duration prometheus.Histogram
	results  *prometheus.CounterVec
	shared   prometheus.Gauge

	mu sync.Mutex
	of map[types.NamespacedName]*probed
}

// probed is what is shown of one proxy's probes. Vectors would take half a KiB of each for as long as the proxy lives.
type probed struct {
	last     time.Duration // 0 before the first one
	failures uint64
	refusals uint64
}

func newProbes(s *set) *Probes {
	p := &Probes{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "healthcheck_duration_seconds", Help: "Duration of probes, the whole fleet's.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}),
		results: s.counter("healthcheck_results_total", "Probes of the whole fleet by the reason that the condition Healthy shows for them.", "reason"),
		shared: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "healthcheck_shared_causes", Help: "Probe URLs whose verdicts are held because most proxies and the judge URL fail.",
		}),
	}
	p.of = map[types.NamespacedName]*probed{}
	s.add(p.duration, p.shared, each{p})
	return p
}

// ObserveProbe counts one probe.
func (p *Probes) ObserveProbe(namespace, name string, took time.Duration, ok bool, reason string) {
	p.duration.Observe(took.Seconds())
	p.results.WithLabelValues(reason).Inc()
	p.with(namespace, name, func(one *probed) {
		one.last = max(took, 1)
		if !ok {
			one.failures++
		}
	})
}

func (p *Probes) with(namespace, name string, f func(*probed)) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[key]
	if one == nil {
		one = &probed{}
		p.of[key] = one
	}
	f(one)
}

// ObserveTargetRefusal counts one probe that passed through the proxy to a target that refused it.
func (p *Probes) ObserveTargetRefusal(namespace, name string) {
	p.with(namespace, name, func(one *probed) { one.refusals++ })
}

// SetSharedCauses shows for how many probe URLs verdicts are held.
func (p *Probes) SetSharedCauses(urls int) { p.shared.Set(float64(urls)) }

// Forget drops the series of one proxy.
func (p *Probes) Forget(namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, types.NamespacedName{Namespace: namespace, Name: name})
}

// each shows the probes of every proxy.
type each struct{ *Probes }

func lastDesc() *prometheus.Desc {
	return described("healthcheck_last_duration_seconds", "Duration of the last probe of a proxy.", "namespace", "proxy")
}

func failuresDesc() *prometheus.Desc {
	return described("healthcheck_failures_total", "Failed probes of a proxy.", "namespace", "proxy")
}

func refusalsDesc() *prometheus.Desc {
	return described("healthcheck_target_refusals_total", "Probes of a proxy whose target answered 401, 403 or 429 through it.", "namespace", "proxy")
}

// Describe implements prometheus.Collector.
func (each) Describe(out chan<- *prometheus.Desc) {
	out <- lastDesc()
	out <- failuresDesc()
	out <- refusalsDesc()
}

// Collect implements prometheus.Collector. Probes go on meanwhile: whoever takes the metrics may be slow.
func (e each) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	all := make([]shown, 0, len(e.of))
	for key, one := range e.of {
		all = append(all, shown{key, *one})
	}
	e.mu.Unlock()
	last, failures, refusals := lastDesc(), failuresDesc(), refusalsDesc()
	for _, one := range all {
		if one.last > 0 {
			out <- &ofProxy{last, one.key, one.last.Seconds(), false}
			out <- &ofProxy{failures, one.key, float64(one.failures), true}
		}
		if one.refusals > 0 {
			out <- &ofProxy{refusals, one.key, float64(one.refusals), true}
		}
	}
}

type shown struct {
	key types.NamespacedName
	probed
}

// ofProxy is one series of a proxy. Unlike a constant metric of the library it makes its labels when it is written, so that a
// scrape of a large fleet does not hold them all at once.
type ofProxy struct {
	desc    *prometheus.Desc
	key     types.NamespacedName
	value   float64
	counter bool
}

// Desc implements prometheus.Metric.
func (m *ofProxy) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric. Labels are in the order of their names.
func (m *ofProxy) Write(out *dto.Metric) error {
	out.Label = []*dto.LabelPair{{Name: ptr.To("namespace"), Value: &m.key.Namespace}, {Name: ptr.To("proxy"), Value: &m.key.Name}}
	if m.counter {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

// Engine is what is looked up of the health engine.
type Engine interface {
	Lanes() []health.LaneStats
	JudgeUp() (up, known bool)
}

// RegisterEngine registers with r how busy the engine is; it is asked at every scrape.
func RegisterEngine(r prometheus.Registerer, e Engine) error {
	s := &set{r: r}
	s.add(engine{e})
	return s.err()
}

type engine struct{ Engine }

func inFlightDesc() *prometheus.Desc {
	return described("healthcheck_probes_in_flight", "Probes under way. The lane fast is for targets that were not failing, slow for those that "+
		"were and for probes that take long.", "lane")
}

func limitDesc() *prometheus.Desc {
	return described("healthcheck_probes_limit", "Probes that may be under way at one time.", "lane")
}

func overdueDesc() *prometheus.Desc {
	return described("healthcheck_probes_overdue", "Probes that are due and have not begun.", "lane")
}

func delayDesc() *prometheus.Desc {
	return described("healthcheck_delay_seconds", "How late the probe is that has been due for longest.", "lane")
}

func judgeDesc() *prometheus.Desc {
	return described("healthcheck_judge_up", "1 while the judge URL is answered, else 0; absent without one.")
}

// Describe implements prometheus.Collector.
func (engine) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []func() *prometheus.Desc{inFlightDesc, limitDesc, overdueDesc, delayDesc, judgeDesc} {
		out <- d()
	}
}

// Collect implements prometheus.Collector.
func (e engine) Collect(out chan<- prometheus.Metric) {
	for _, l := range e.Lanes() {
		out <- gaugeOf(inFlightDesc(), l.InFlight, l.Name)
		out <- gaugeOf(limitDesc(), l.Limit, l.Name)
		out <- gaugeOf(overdueDesc(), l.Overdue, l.Name)
		out <- prometheus.MustNewConstMetric(delayDesc(), prometheus.GaugeValue, l.Delay.Seconds(), l.Name)
	}
	up, known := e.JudgeUp()
	switch {
	case known && up:
		out <- gaugeOf(judgeDesc(), 1)
	case known:
		out <- gaugeOf(judgeDesc(), 0)
	}
}
