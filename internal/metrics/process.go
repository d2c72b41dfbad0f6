package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Build says what the process was built from.
type Build struct{ Version, Revision string }

// RegisterProcess registers with r what the process is. leading is asked at every scrape.
func RegisterProcess(r prometheus.Registerer, b Build, leading func() bool) error {
	s := &set{r: r}
	s.value("leader", "1 while this replica may grant leases and change instances, else 0.", func() float64 {
		if leading() {
			return 1
		}
		return 0
	})
	s.gauge("build_info", "1, with what the process was built from.", "version", "revision", "goversion").
		WithLabelValues(b.Version, b.Revision, runtime.Version()).Set(1)
	return s.err()
}

// RegisterTokens registers with r whether the token file's last content is in force; accepted is asked at every scrape.
func RegisterTokens(r prometheus.Registerer, accepted func() bool) error {
	s := &set{r: r}
	s.value("token_file_last_reload_successful", "1 while what the token file says is in force, else 0; absent without one.", func() float64 {
		if accepted() {
			return 1
		}
		return 0
	})
	return s.err()
}

// RegisterCertificates registers with r when each certificate that is in force ends, by what it is for. ends is asked at every
// scrape and not changed.
func RegisterCertificates(r prometheus.Registerer, ends map[string]func() time.Time) error {
	s := &set{r: r}
	s.add(certificates(ends))
	return s.err()
}

type certificates map[string]func() time.Time

func certificateDesc() *prometheus.Desc {
	return described("certificate_expiry_timestamp_seconds",
		"When the certificate ends that a server shows; of the servers that follow files, by what they are for: discovery or metrics.", "use")
}

// Describe implements prometheus.Collector.
func (certificates) Describe(ch chan<- *prometheus.Desc) { ch <- certificateDesc() }

// Collect implements prometheus.Collector.
func (c certificates) Collect(ch chan<- prometheus.Metric) {
	for use, end := range c {
		if at := end(); !at.IsZero() {
			ch <- prometheus.MustNewConstMetric(certificateDesc(), prometheus.GaugeValue, float64(at.Unix()), use)
		}
	}
}

// Spans tells what became of spans.
type Spans interface {
	Sent() uint64
	Refused() uint64
	Dropped() uint64
}

// RegisterSpans registers with r what became of spans; it is asked at every scrape.
func RegisterSpans(r prometheus.Registerer, spans Spans) error {
	s := &set{r: r}
	s.add(traces{spans})
	return s.err()
}

type traces struct{ Spans }

func spansDesc() *prometheus.Desc {
	return described("trace_spans_total", "Spans by what became of them: sent, refused (the collector has not taken them, or could not be reached) or "+
		"dropped (they came faster than they could be sent).", "result")
}

// Describe implements prometheus.Collector.
func (traces) Describe(ch chan<- *prometheus.Desc) { ch <- spansDesc() }

// Collect implements prometheus.Collector.
func (t traces) Collect(ch chan<- prometheus.Metric) {
	for result, n := range map[string]uint64{"sent": t.Sent(), "refused": t.Refused(), "dropped": t.Dropped()} {
		ch <- counterOf(spansDesc(), n, result)
	}
}
