package discovery

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

const (
	healthzPath  = "/healthz"
	maxBodyBytes = 64 << 10
)

// recovered turns a panic into 500 without telling the client why, or cuts the connection when an answer has begun.
func (s *Server) recovered(next handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { // the value itself is the signal
				panic(v)
			}
			s.o.Log.Error(nil, "panic in an HTTP handler", "route", x.route, "panic", panicText(v), "stack", string(debug.Stack()))
			if x.status != 0 {
				panic(http.ErrAbortHandler)
			}
			x.fail(&apiError{http.StatusInternalServerError, "internal", "internal error"})
		}()
		next(x, r)
	})
}

// panicText names a panic. The text of a value that is not the runtime's own may hold what the request carried.
func panicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

// logged writes one line per request, without path, query and headers: those are the client's.
func (s *Server) logged(next handler) handler {
	return func(x *exchange, r *http.Request) {
		log := logf.FromContext(r.Context()).V(1)
		if !log.Enabled() {
			next(x, r)
			return
		}
		start := s.o.Clock.Now()
		defer func() {
			status := x.status
			if status == 0 {
				status = http.StatusInternalServerError
			}
			log.Info("request", "method", knownMethod(r.Method), "route", x.route, "status", status,
				"duration", s.o.Clock.Since(start).String())
		}()
		next(x, r)
	}
}

func knownMethod(method string) string {
	if slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace,
	}, method) {
		return method
	}
	return "other"
}

// bounded refuses a body that announces itself as too large and makes reading fail where one turns out to be.
func (s *Server) bounded(next handler) handler {
	return func(x *exchange, r *http.Request) {
		if r.Body != http.NoBody {
			x.body = &incoming{ReadCloser: r.Body}
			r.Body = x.body
		}
		if r.ContentLength > maxBodyBytes {
			x.Header().Set("Connection", "close")
			x.fail(tooLarge())
			return
		}
		r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, maxBodyBytes)
		next(x, r)
	}
}

// authenticated lets only known principals through; /healthz is open.
func (s *Server) authenticated(next handler) handler {
	return func(x *exchange, r *http.Request) {
		if r.URL.Path != healthzPath {
			principal, presented, ok := s.auth.principal(r.Header.Values("Authorization"))
			if !ok {
				x.unauthorized(presented)
				return
			}
			x.principal = principal
			connlimit.Of(r).Prove()
		}
		next(x, r)
	}
}
