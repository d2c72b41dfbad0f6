package discovery

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

func (s *Server) getLease(x *exchange, r *http.Request) {
	l, err := s.o.Ledger.Get(r.PathValue("id"), x.principal.Name)
	if err != nil {
		x.fail(ofLedger(err))
		return
	}
	s.answerLease(x, l)
}

// answerLease shows a lease, unless it is on a proxy that the principal sees no longer.
func (s *Server) answerLease(x *exchange, l lease.Lease) {
	if !x.principal.sees(l.Proxy) {
		x.fail(proxyGone())
		return
	}
	x.json(http.StatusOK, s.viewLease(l))
}

type renewBody struct {
	TTLSeconds jsontext.Value `json:"ttlSeconds"`
}

func (s *Server) renewLease(x *exchange, r *http.Request) {
	var body renewBody
	if _, failure := decode(r, &body); failure != nil {
		x.fail(failure)
		return
	}
	ttl, failure := s.ttl(body.TTLSeconds)
	if failure != nil {
		x.fail(failure)
		return
	}
	id := r.PathValue("id")
	if l, err := s.o.Ledger.Get(id, x.principal.Name); err == nil && !x.principal.sees(l.Proxy) {
		x.fail(proxyGone())
		return
	}
	l, err := s.o.Ledger.Renew(id, x.principal.Name, ttl)
	if err != nil {
		x.fail(ofLedger(err))
		return
	}
	s.answerLease(x, l)
}

func (s *Server) releaseLease(x *exchange, r *http.Request) {
	if err := s.o.Ledger.Release(r.PathValue("id"), x.principal.Name); err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.noContent()
}
