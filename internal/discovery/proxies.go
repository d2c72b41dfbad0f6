package discovery

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

type listView struct {
	Proxies []proxyView `json:"proxies"`
	// Count is that of this page.
	Count    int    `json:"count"`
	Continue string `json:"continue,omitzero"`
}

func (s *Server) listProxies(x *exchange, r *http.Request) {
	q, failure := parseList(r.URL.RawQuery)
	if failure != nil {
		x.fail(failure)
		return
	}
	wanted := lease.Query{Selector: q.selector}
	if q.namespace != "" {
		wanted.Namespaces = []string{q.namespace}
	}
	var page []*fleet.Proxy
	var more bool
	if x.principal.admits(&wanted) {
		page, more = s.o.Fleet.Page(q.after, wanted.Selector, q.limit, func(p *fleet.Proxy) bool {
			return (len(wanted.Namespaces) == 0 || slices.Contains(wanted.Namespaces, p.Key.Namespace)) &&
				(q.healthy == nil || healthy(p) == *q.healthy)
		})
	}
	out := listView{Proxies: make([]proxyView, len(page)), Count: len(page)}
	for i, live := range s.o.Ledger.LiveOnEach(page) {
		out.Proxies[i] = viewProxy(page[i], live)
	}
	if more {
		out.Continue = continueAfter(page[len(page)-1].Key)
	}
	x.json(http.StatusOK, &out)
}

func (s *Server) getProxy(x *exchange, r *http.Request) {
	if _, failure := parameters(r.URL.RawQuery, ""); failure != nil {
		x.fail(failure)
		return
	}
	p := s.o.Fleet.Get(types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
	if p == nil || !x.principal.sees(p) {
		x.fail(notFound("there is no such proxy"))
		return
	}
	v := viewProxy(p, s.o.Ledger.LiveOn(p.LeaseKey()))
	x.json(http.StatusOK, &v)
}
