package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// Leases are the metrics of requests for leases.
type Leases struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	noMatch  *prometheus.CounterVec
}

func newLeases(s *set) *Leases {
	l := &Leases{
		requests: s.counter("lease_requests_total",
			"Requests for a lease by how they ended: granted, no_match, invalid, overloaded, not_leader or client_gone.", "outcome"),
		// A grant takes microseconds, and a wait up to 30 s.
		duration: s.histogram("lease_request_duration_seconds",
			"Time until the answer to a request for a lease was known, by whether it was ready to wait for a proxy.",
			prometheus.ExponentialBuckets(0.0005, 2, 17), "wait"),
		noMatch: s.counter("lease_no_match_total",
			"Requests for a lease that were answered with 409, by what kept most of the proxies back that match: no_proxy (none matches), "+
				"unavailable (see proxies_withheld), at_capacity or cooldown.", "cause"),
	}
	for _, o := range []string{
		discovery.OutcomeGranted, discovery.OutcomeNoMatch, discovery.OutcomeInvalid, discovery.OutcomeOverloaded, discovery.OutcomeNotLeader, discovery.OutcomeGone,
	} {
		l.requests.WithLabelValues(o) // a first one is a change from 0
	}
	for _, c := range []string{discovery.CauseNoProxy, discovery.CauseUnavailable, discovery.CauseAtCapacity, discovery.CauseCooldown} {
		l.noMatch.WithLabelValues(c)
	}
	for _, waits := range []bool{false, true} {
		l.duration.WithLabelValues(yes(waits))
	}
	return l
}

func yes(is bool) string {
	if is {
		return "true"
	}
	return "false"
}

// LeaseRequest counts one request for a lease.
func (l *Leases) LeaseRequest(outcome string, waits bool, took time.Duration) {
	l.requests.WithLabelValues(outcome).Inc()
	l.duration.WithLabelValues(yes(waits)).Observe(took.Seconds())
}

// NoMatch counts what kept proxies back.
func (l *Leases) NoMatch(cause string) { l.noMatch.WithLabelValues(cause).Inc() }

// ledger shows what the ledger counts.
type ledger struct{ stats func() lease.Stats }

func activeDesc() *prometheus.Desc { return described("leases_active", "Leases held at this moment.") }

func waitingDesc() *prometheus.Desc {
	return described("lease_requests_waiting", "Requests for a lease that wait for a proxy at this moment.")
}

func cooldownsDesc() *prometheus.Desc {
	return described("lease_cooldowns", "Rests of proxies at this moment: one for each target that a proxy rests for, one for a rest for all of them.")
}

func seatsDesc() *prometheus.Desc {
	return described("lease_proxies", "Proxies by whether they could be leased now: free, at_capacity, cooling (for every target) or "+
		"unoffered (withheld, being withdrawn, or kept back after a start).", "state")
}

func endedDesc() *prometheus.Desc {
	return described("leases_ended_total", "Leases that have ended, by how: released, expired or gone (their instance went).", "how")
}

func reportsDesc() *prometheus.Desc {
	return described("lease_reports_total", "Reports of lease holders by result: ok, banned or rate_limited.", "result")
}

// Describe implements prometheus.Collector.
func (ledger) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []func() *prometheus.Desc{activeDesc, waitingDesc, cooldownsDesc, seatsDesc, endedDesc, reportsDesc} {
		out <- d()
	}
}

// Collect implements prometheus.Collector.
func (l ledger) Collect(out chan<- prometheus.Metric) {
	s := l.stats()
	out <- gaugeOf(activeDesc(), s.Live)
	out <- gaugeOf(waitingDesc(), s.Waiting)
	out <- gaugeOf(cooldownsDesc(), s.Cooldowns)
	emit(out, seatsDesc(), map[string]int{
		"free": s.Proxies.Free, "at_capacity": s.Proxies.AtCapacity, "cooling": s.Proxies.Cooling, "unoffered": s.Proxies.Unoffered,
	})
	for how, n := range map[string]uint64{"released": s.Ended.Released, "expired": s.Ended.Expired, "gone": s.Ended.Gone} {
		out <- counterOf(endedDesc(), n, how)
	}
	for result, n := range s.Reports {
		out <- counterOf(reportsDesc(), n, string(result))
	}
}
