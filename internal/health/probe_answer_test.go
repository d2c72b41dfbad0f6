package health

import (
	"net"
	"net/http"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// answerRows are about what the target answers inside the tunnel.
func answerRows() []row {
	const (
		bad        = v1alpha1.ReasonBadResponse
		late       = v1alpha1.ReasonTimeout
		unexpected = v1alpha1.ReasonUnexpectedStatus
	)
	any2xx := func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }
	const found = "HTTP/1.1 200 OK\r\n"
	return []row{
		{name: "redirect is not followed", origin: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again?sentinel", http.StatusFound) }, want: unexpected, says: "302 Found, want 204 No Content"},
		{name: "redirect that is expected", origin: status(302), probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 302 }, want: passes},
		{name: "portal page where 204 is expected", origin: writes(found + "Content-Length: 13\r\n\r\nPlease log in"), want: unexpected, says: "200 OK, want 204 No Content"},
		{name: "any 2xx", origin: status(206), probe: any2xx, want: passes},
		{name: "any 2xx but not this", origin: status(304), probe: any2xx, want: unexpected, says: "304 Not Modified, want any 2xx"},
		{name: "target answers 401", origin: status(401), want: unexpected, aboutIt: true},
		{name: "target answers 403", origin: status(403), want: unexpected, aboutIt: true},
		{name: "target answers 429", origin: status(429), want: unexpected, aboutIt: true},
		{name: "target answers 403 as expected", origin: status(403), probe: func(p *v1alpha1.Probe) { p.ExpectedStatus = 403 }, want: passes},
		{name: "target answers 407", origin: status(407), want: unexpected},
		{name: "target answers 503", origin: status(503), want: unexpected},
		{name: "interim answers", origin: writes("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), want: passes},
		{name: "endless interim answers of the target", origin: raw(func(c net.Conn) { endless(c, "", "HTTP/1.1 103 Early Hints\r\n\r\n") }), want: bad, says: "interim"},

		{name: "target says nothing", origin: raw(swallow), want: late, says: "waiting for the answer"},
		{name: "target closes", origin: raw(func(net.Conn) {}), want: bad, says: "connection closed while waiting for the answer"},
		{name: "target is not HTTP", origin: writes("220 sentinel ESMTP\r\n"), want: bad, says: "not valid HTTP"},
		{name: "target drips a header", origin: raw(func(c net.Conn) { drips(c, found+"X-Drip: ") }), want: late, says: "waiting for the answer"},
		{name: "header over 64 KiB", origin: writes(found + "X-Big: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"), want: bad, says: "larger than 64 KiB"},
		{name: "header of the target just under 64 KiB", origin: writes("HTTP/1.1 204 No Content\r\nX-Big: " + strings.Repeat("a", 63<<10) + "\r\n\r\n"), want: passes},

		{name: "endless body", probe: any2xx, origin: raw(func(c net.Conn) { endless(c, found+"\r\n", "a") }), want: passes},
		{name: "gzip bomb", probe: any2xx, origin: bombs(), want: passes},
		{name: "endless trailer", probe: any2xx, origin: raw(func(c net.Conn) { endless(c, found+"Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-Big: a\r\n") }), want: bad, says: "reading the body"},
		{name: "body stalls", probe: any2xx, origin: raw(func(c net.Conn) { _, _ = c.Write([]byte(found + "\r\na")); swallow(c) }), want: late, says: "reading the body"},
		{name: "body drips", probe: any2xx, origin: raw(func(c net.Conn) { drips(c, found+"\r\n") }), want: late, says: "reading the body"},
		{name: "body cut short", probe: any2xx, origin: writes(found + "Content-Length: 100\r\n\r\na"), want: bad, says: "connection closed while reading the body"},
		{name: "body in broken chunks", probe: any2xx, origin: writes(found + "Transfer-Encoding: chunked\r\n\r\nsentinel\r\n"), want: bad, says: "not valid HTTP/1.1 while reading the body"},
		{name: "body of an unexpected status is not read", origin: raw(func(c net.Conn) { drips(c, found+"\r\n") }), want: unexpected},
	}
}
