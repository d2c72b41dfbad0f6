package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// ProxyError is an answer of the leased proxy itself in place of one of the target: it refused its client, could not reach
// the target, or has no room.
type ProxyError struct {
	// Status is the HTTP status of the proxy's answer: 407 for wrong credentials, 502 and 504 for a target that cannot be
	// reached, 503 for too many connections, 403 for a target that the proxy refuses.
	Status int
	// Reason is its Proxy-Status field (RFC 9209), at most 300 printable bytes; empty when there is none.
	Reason string
}

// Error implements error.
func (e *ProxyError) Error() string {
	text := fmt.Sprintf("the proxy answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// useless reports whether another proxy would do better: the fault is this proxy's, not the target's.
func (e *ProxyError) useless() bool {
	return e.Status == http.StatusProxyAuthRequired || e.Status == http.StatusServiceUnavailable
}

func proxyError(resp *http.Response) *ProxyError {
	return &ProxyError{Status: resp.StatusCode, Reason: printable(resp.Header.Get("Proxy-Status"))}
}

// checkConnect is http.Transport's OnProxyConnectResponse.
func checkConnect(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return proxyError(resp)
	}
	return nil
}

// dead reports whether err says that the proxy, and not the target, failed. sent: the request had got a connection.
func dead(req *http.Request, err error, sent bool) bool {
	var answered *ProxyError
	if errors.As(err, &answered) {
		return answered.useless()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		return true
	}
	// Behind a tunnel that stands, the target may have cut the connection as well.
	return broken(err) && (!sent || req.URL.Scheme == "http")
}

func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// repeatable reports whether req may be sent again after it was, perhaps, sent: as net/http sees it.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return req.Header.Get("Idempotency-Key") != "" || req.Header.Get("X-Idempotency-Key") != ""
}

// rewindable reports whether the body can be read a second time.
func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}
