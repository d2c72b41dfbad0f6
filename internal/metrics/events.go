package metrics

import "github.com/prometheus/client_golang/prometheus"

// Events are the metrics of Events.
type Events struct{ suppressed *prometheus.CounterVec }

func newEvents(s *set) *Events {
	e := &Events{s.counter("events_suppressed_total", "Events that were not published because there were too many, by type.", "type")}
	for _, kind := range []string{"Normal", "Warning"} {
		e.suppressed.WithLabelValues(kind) // a first one is a change from 0
	}
	return e
}

// Suppressed counts one Event that was not published.
func (e *Events) Suppressed(kind string) { e.suppressed.WithLabelValues(kind).Inc() }
