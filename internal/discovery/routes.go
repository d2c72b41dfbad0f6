package discovery

import (
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

// methods are the handlers of one path.
type methods map[string]handler

func (s *Server) table() map[string]methods {
	return map[string]methods{
		healthzPath:                      {http.MethodGet: s.healthz},
		openapiPath:                      {http.MethodGet: s.plain(s.getContract)},
		"/v1/proxies":                    {http.MethodGet: s.bodyless(s.listProxies)},
		"/v1/proxies/{namespace}/{name}": {http.MethodGet: s.plain(s.getProxy)},
		"/v1/leases":                     {http.MethodPost: s.acquireLease},
		"/v1/leases/{id}":                {http.MethodGet: s.plain(s.getLease), http.MethodDelete: s.plain(s.releaseLease)},
		"/v1/leases/{id}/renew":          {http.MethodPost: s.renewLease},
		"/v1/leases/{id}/report":         {http.MethodPost: s.reportLease},
		"/v1/cooldowns":                  {http.MethodDelete: s.bodyless(s.clearCooldowns)},
	}
}

// routes dispatches by path first and by method second, so that 404 and 405 are the API's own.
func (s *Server) routes() handler {
	mux := http.NewServeMux()
	for pattern, m := range s.table() {
		standby := strings.HasPrefix(pattern, "/v1/")
		allow := m.allow()
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			x := w.(*exchange) //nolint:forcetypeassert // the mux gets nothing else, below
			x.route = pattern
			h := m.handler(r.Method)
			switch {
			case h == nil:
				x.Header().Set("Allow", allow)
				x.fail(&apiError{http.StatusMethodNotAllowed, "method_not_allowed", "allowed here: " + allow})
			case standby && !s.o.Leading():
				x.fail(notLeader())
				s.countStandby(x, r.Method)
			default:
				h(x, r)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.(*exchange).fail(notFound("there is nothing under this path")) //nolint:forcetypeassert // as above
	})
	return func(x *exchange, r *http.Request) {
		// The mux would redirect to the clean form, and clients follow that with a GET.
		if !clean(r.URL.Path) {
			x.fail(notFound("there is nothing under this path"))
			return
		}
		mux.ServeHTTP(x, r)
	}
}

func clean(p string) bool { return strings.HasPrefix(p, "/") && path.Clean(p) == p }

// handler returns the one for method; HEAD is GET whose body net/http leaves out.
func (m methods) handler(method string) handler {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return m[method]
}

func (m methods) allow() string {
	names := slices.Sorted(maps.Keys(m))
	if m[http.MethodGet] != nil {
		names = append(names, http.MethodHead)
	}
	return strings.Join(names, ", ")
}

func (s *Server) healthz(x *exchange, _ *http.Request) {
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = x.Write([]byte("ok\n"))
}
