package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

// Requests are the metrics of the discovery API.
type Requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	tls      *prometheus.CounterVec
}

func newRequests(s *set) *Requests {
	q := &Requests{
		total: s.counter("discovery_requests_total",
			"Requests to the discovery API by route, unmatched where there is none or no valid token, and status of the answer.", "route", "code"),
		duration: s.histogram("discovery_request_duration_seconds",
			"Duration of requests to the discovery API, those that wait for a proxy included.", prometheus.ExponentialBuckets(0.0005, 4, 9), "route"),
		tls: s.counter("discovery_tls_handshake_failures_total",
			"Clients with which the discovery API came to no TLS connection, by reason: not_tls, rejected_by_client (the certificate, mostly), timeout or other.", "reason"),
	}
	for _, reason := range connlimit.HandshakeReasons() {
		q.tls.WithLabelValues(reason) // a first failure is a change from 0
	}
	return q
}

// HandshakeFailed counts a client with which TLS did not come about.
func (q *Requests) HandshakeFailed(reason string) { q.tls.WithLabelValues(reason).Inc() }

// Request counts one request to the discovery API.
func (q *Requests) Request(route string, status int, took time.Duration) {
	q.total.WithLabelValues(route, strconv.Itoa(status)).Inc()
	q.duration.WithLabelValues(route).Observe(took.Seconds())
}

// RegisterConnections registers with r how many connections the discovery API holds; count is asked at every scrape.
func RegisterConnections(r prometheus.Registerer, count func() int) error {
	s := &set{r: r}
	s.value("discovery_connections", "Connections that the discovery API holds.", func() float64 { return float64(count()) })
	return s.err()
}
