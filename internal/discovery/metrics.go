package discovery

import (
	"net/http"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// measured tells of every request once it has been answered.
func (s *Server) measured(next handler) handler {
	return func(x *exchange, r *http.Request) {
		x.began = s.o.Clock.Now()
		defer func() {
			status, route := x.status, UnmatchedRoute
			if status == 0 { // a panic; recovered answers it
				status = http.StatusInternalServerError
			}
			if x.route != "" {
				route = knownMethod(r.Method) + " " + x.route
			}
			s.o.Metrics.Request(route, status, s.o.Clock.Since(x.began))
		}()
		next(x, r)
	}
}

// acquired counts a request for a lease.
func (s *Server) acquired(x *exchange, outcome string) {
	s.o.Metrics.LeaseRequest(outcome, x.waits, s.o.Clock.Since(x.began))
}

// noneMatches answers a request for a lease that no proxy can serve now, and counts it.
func (s *Server) noneMatches(x *exchange, refused *lease.NoMatchError) {
	s.acquired(x, OutcomeNoMatch)
	s.o.Metrics.NoMatch(causeOf(refused))
	s.noMatch(x, refused)
}

// causeOf is what keeps most of the proxies back that were considered; of several that keep back as many it is the one that
// ends soonest by itself.
func causeOf(refused *lease.NoMatchError) string {
	cause, most := CauseNoProxy, 0
	for _, c := range []struct {
		cause string
		n     int
	}{{CauseAtCapacity, refused.AtCapacity}, {CauseCooldown, refused.InCooldown}, {CauseUnavailable, refused.Unhealthy}} {
		if c.n > most {
			cause, most = c.cause, c.n
		}
	}
	return cause
}

func (s *Server) countStandby(x *exchange, method string) {
	if x.route == "/v1/leases" && method == http.MethodPost {
		s.acquired(x, OutcomeNotLeader)
	}
}
