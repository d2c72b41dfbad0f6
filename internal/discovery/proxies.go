package discovery

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

type listView struct {
	Proxies []proxyView `json:"proxies"`
	// Count is that of this page.
	Count    int    `json:"count"`
	Continue string `json:"continue,omitempty"`
}

func (s *Server) listProxies(x *exchange, r *http.Request) {
	q, failure := parseList(r.URL.RawQuery)
	if failure != nil {
		x.fail(failure)
		return
	}
	page, more := q.page(s.o.Fleet.Select(q.namespace, q.selector))
	out := listView{Proxies: make([]proxyView, len(page)), Count: len(page)}
	for i, live := range s.o.Ledger.LiveOnEach(page) {
		out.Proxies[i] = viewProxy(page[i], live)
	}
	if more {
		out.Continue = continueAfter(page[len(page)-1].Key)
	}
	x.json(http.StatusOK, out)
}

// page picks those of all that belong on the page, in the order of namespace and name.
func (q listQuery) page(all []*fleet.Proxy) (page []*fleet.Proxy, more bool) {
	all = slices.DeleteFunc(all, func(p *fleet.Proxy) bool {
		return q.healthy != nil && healthy(p) != *q.healthy || q.after != nil && compareKeys(p.Key, *q.after) <= 0
	})
	slices.SortFunc(all, func(a, b *fleet.Proxy) int { return compareKeys(a.Key, b.Key) })
	if len(all) > q.limit {
		return all[:q.limit], true
	}
	return all, false
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (s *Server) getProxy(x *exchange, r *http.Request) {
	if _, failure := parameters(r.URL.RawQuery, ""); failure != nil {
		x.fail(failure)
		return
	}
	p := s.o.Fleet.Get(types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
	if p == nil {
		x.fail(notFound("there is no such proxy"))
		return
	}
	x.json(http.StatusOK, viewProxy(p, s.o.Ledger.LiveOn(p.LeaseKey())))
}
