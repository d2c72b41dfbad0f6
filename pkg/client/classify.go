package client

import (
	"net/http"
	"strings"
)

// DefaultClassify is how Transport judges when TransportOptions.Classify is nil. An answer of the target with status 429 is
// ResultRateLimited, one with 403 is ResultBanned (401 is not: it asks for a login), any other is ResultOK. An error, and an
// answer that the proxy itself made, say nothing about what the target thinks of the exit address: ResultNone.
func DefaultClassify(resp *http.Response, err error) Result {
	switch {
	case err != nil, resp == nil, byProxy(resp):
		return ResultNone
	case resp.StatusCode == http.StatusTooManyRequests:
		return ResultRateLimited
	case resp.StatusCode == http.StatusForbidden:
		return ResultBanned
	}
	return ResultOK
}

// byProxy reports whether the leased proxy made the answer: the operator's own proxies say so as in RFC 9209, Squid in a
// field of its own. It can only be so where no tunnel is in between.
func byProxy(resp *http.Response) bool {
	if resp.TLS != nil {
		return false
	}
	return resp.StatusCode == http.StatusProxyAuthRequired || resp.Header.Get("X-Squid-Error") != "" || ownProxyError(resp)
}

func ownProxyError(resp *http.Response) bool {
	for _, field := range resp.Header.Values("Proxy-Status") {
		if strings.HasPrefix(field, "egress-proxy;") && strings.Contains(field, "error=") {
			return true
		}
	}
	return false
}
