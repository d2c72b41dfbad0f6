package forwardproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

const textPlain = "text/plain; charset=utf-8"

// statusClientGone is logged, never sent: the client left before an answer.
const statusClientGone = 499

var (
	errIdle     = errors.New("nothing moved for the idle timeout")
	errShutdown = errors.New("the proxy is shutting down")
)

// failure is an answer of the proxy itself. Its text is constant, so nothing of
// a request, a credential or the inside can get into it.
type failure struct {
	status int
	kind   string // error type of RFC 9209
	text   string
}

func (f failure) proxyStatus() string { return "egress-proxy; error=" + f.kind }

func badRequest(err error) failure {
	return failure{http.StatusBadRequest, "http_request_error", err.Error()}
}

// classify maps what went wrong on the way to the destination. It is the only
// place where an error becomes a status.
func classify(err error) failure {
	var dns *net.DNSError
	var timeout net.Error
	timedOut := errors.As(err, &timeout) && timeout.Timeout() ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case errors.Is(err, ErrDestinationRefused):
		return failure{http.StatusForbidden, "destination_ip_prohibited", "destination refused by policy"}
	case errors.Is(err, errIdle):
		return failure{http.StatusGatewayTimeout, "http_response_timeout", "destination stayed silent"}
	case errors.Is(err, errShutdown):
		return failure{http.StatusServiceUnavailable, "connection_terminated", "proxy is shutting down"}
	case errors.As(err, &dns) && timedOut:
		return failure{http.StatusGatewayTimeout, "dns_timeout", "timed out resolving the destination"}
	case errors.As(err, &dns):
		return failure{http.StatusBadGateway, "dns_error", "destination cannot be resolved"}
	case timedOut:
		return failure{http.StatusGatewayTimeout, "connection_timeout", "timed out reaching the destination"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure{http.StatusBadGateway, "connection_refused", "destination refused the connection"}
	default:
		return failure{http.StatusBadGateway, "destination_unavailable", "destination cannot be reached"}
	}
}

// leaveBody ends the connection of a request whose body nobody will read:
// net/http would otherwise read it first, for as long as the client likes, and
// what it did not get would be taken for the next request.
func (s *Server) leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(deadline(s.cfg.HeaderTimeout))
	}
}

// refuse answers with f and leaves the body, if there is one.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, rec *record, f failure) {
	rec.answer(f.status)
	s.leaveBody(w, r)
	h := w.Header()
	h.Set("Content-Type", textPlain)
	h.Set("Proxy-Status", f.proxyStatus())
	w.WriteHeader(f.status)
	n, _ := io.WriteString(w, f.text+"\n")
	rec.down += int64(n)
}
