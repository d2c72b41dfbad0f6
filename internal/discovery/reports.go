package discovery

import (
	"net/http"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

type reportBody struct {
	Result *string `json:"result"`
	Target *string `json:"target"`
}

func (s *Server) reportLease(x *exchange, r *http.Request) {
	var body reportBody
	if _, failure := decode(r, &body); failure != nil {
		x.fail(failure)
		return
	}
	if body.Result == nil || !lease.Result(*body.Result).Valid() {
		x.fail(&apiError{http.StatusBadRequest, "invalid_result", "result must be ok, rate_limited or banned"})
		return
	}
	host := ""
	if body.Target != nil {
		if host = *body.Target; !canonicalHost(host) {
			x.fail(target("member /target", host))
			return
		}
	}
	if err := s.o.Ledger.Report(r.PathValue("id"), x.principal.Name, lease.Result(*body.Result), host); err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.noContent()
}

// clearCooldowns ends the rest of one proxy for one target, or all of its rests when no target is named.
func (s *Server) clearCooldowns(x *exchange, r *http.Request) {
	params, failure := parameters(r.URL.RawQuery, "", "proxy", "target")
	if failure != nil {
		x.fail(failure)
		return
	}
	key, ok := object(params["proxy"])
	if !ok {
		x.fail(invalid("proxy must be namespace/name"))
		return
	}
	host, given := params["target"]
	if given && !canonicalHost(host) {
		x.fail(target("target", host))
		return
	}
	p := s.o.Fleet.Get(key)
	if p == nil || !x.principal.sees(p) {
		x.fail(notFound("there is no such proxy"))
		return
	}
	if err := s.o.Ledger.ClearCooldowns(p.LeaseKey(), host); err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.noContent()
}
