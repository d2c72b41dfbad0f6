package health

import (
	"io"
	"net"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// plainRows are about http URLs, where the proxy itself answers for the target.
func plainRows() []row {
	const (
		bad        = v1alpha1.ReasonBadResponse
		late       = v1alpha1.ReasonTimeout
		unexpected = v1alpha1.ReasonUnexpectedStatus
		found      = "HTTP/1.1 200 OK\r\n"
	)
	any2xx := func(p *v1alpha1.Probe) { p.ExpectedStatus = 0 }
	after := func(f func(net.Conn)) func(net.Conn) { return func(c net.Conn) { head(c); f(c) } }
	plain := []row{
		{name: "sound", url: "http://target.test/generate", proxy: answers("204"), want: passes},
		{name: "loopback target goes through the proxy, too", url: "http://127.0.0.1:1/", proxy: answers("204"), want: passes},
		{name: "407", proxy: answers("407"), want: v1alpha1.ReasonProxyAuthFailed, says: "does not accept the credentials"},
		{name: "403 may be the proxy's own", proxy: answers("403"), want: unexpected, says: "403"},
		{name: "502 may be the proxy's own", proxy: answers("502"), want: unexpected, says: "502 Bad Gateway"},
		{name: "redirect", proxy: answers("302"), want: unexpected, says: "302"},
		{name: "portal page", proxy: says(found + "\r\nPlease log in"), want: unexpected, says: "200 OK, want 204"},
		{name: "CONNECT's answer is none", proxy: says(established), want: unexpected, says: "200 OK, want 204"},
		{name: "silence", proxy: swallow, want: late, says: "waiting for the answer"},
		{name: "half an answer", proxy: says("HTTP/1.1 204"), want: bad},
		{name: "closes", proxy: after(func(net.Conn) {}), want: bad, says: "connection closed while waiting for the answer"},
		{name: "resets", proxy: after(reset), want: bad, says: "connection"},
		{name: "one byte at a time", proxy: after(func(c net.Conn) { drips(c, found+"X-Drip: ") }), want: late, says: "waiting for the answer"},
		{name: "header over 64 KiB", proxy: says(found + "X-Big: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"), want: bad, says: "larger than 64 KiB"},
		{name: "endless body", probe: any2xx, proxy: after(func(c net.Conn) { endless(c, found+"\r\n", "a") }), want: passes},
		{name: "body drips", probe: any2xx, proxy: after(func(c net.Conn) { drips(c, found+"\r\n") }), want: late, says: "reading the body"},
		{name: "resets in the body", probe: any2xx, proxy: after(func(c net.Conn) {
			_, _ = io.WriteString(c, found+"Content-Length: 100\r\n\r\na")
			reset(c)
		}), want: bad},
	}
	for i := range plain {
		plain[i].name = "http: " + plain[i].name
		if plain[i].url == "" {
			plain[i].url = "http://target.test/"
		}
	}
	return append(plain, row{name: "url of another scheme", url: "ftp://target.test/", want: bad, says: "url"})
}
