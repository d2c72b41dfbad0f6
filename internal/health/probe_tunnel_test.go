package health

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// opens is a proxy that opens a tunnel with nothing behind it but f.
func opens(f func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		head(c)
		_, _ = io.WriteString(c, established)
		f(c)
	}
}

// tunnelRows are about TLS inside the tunnel.
func tunnelRows() []row {
	const (
		failed = v1alpha1.ReasonTLSFailed
		late   = v1alpha1.ReasonTimeout
	)
	html := "<html>Please log in, sentinel-user</html>"
	return []row{
		{name: "200 then close", proxy: says(established), want: failed, says: "connection closed while setting up TLS"},
		{name: "200 then HTML", proxy: says(established + html), want: failed, says: "does not speak TLS"},
		{name: "200 with a page of its own", proxy: says("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 42\r\n\r\n" + html), want: failed, says: "does not speak TLS"},
		{name: "200 then silence", proxy: opens(swallow), want: late, says: "setting up TLS"},
		{name: "200 then reset", proxy: opens(func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); reset(c) }), want: failed, says: "connection"},
		{name: "200 then half a handshake", proxy: opens(func(c net.Conn) { _, _ = io.WriteString(c, "\x16\x03\x03\x40\x00\x02"); swallow(c) }), want: late, says: "setting up TLS"},
		{name: "200 then a handshake that drips", proxy: opens(func(c net.Conn) { drips(c, "\x16\x03\x03\x40\x00\x02") }), want: late, says: "setting up TLS"},
		{name: "200 then an odd handshake", proxy: opens(func(c net.Conn) { _, _ = io.WriteString(c, "\x16\x03\x03\x00\x04\x00\x00\x00\x00"); swallow(c) }), want: failed, says: "handshake failed"},

		{name: "self-signed certificate", probe: func(p *v1alpha1.Probe) { p.CABundle = nil }, want: failed, says: "unknown authority"},
		{name: "certificate of another name", url: "https://wrong.test/", want: failed, says: "not valid for wrong.test"},
		{name: "certificate without the address", url: "https://192.0.2.1/", want: failed, says: "not valid for 192.0.2.1"},
		{name: "certificate with the address", url: "https://[::1]:444/", want: passes},
		{name: "expired certificate", sign: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, want: failed, says: "expired"},
		{name: "certificate from the future", sign: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, want: failed, says: "not valid yet"},
		{name: "certificate for clients", sign: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, want: failed, says: "the certificate is not valid"},
		{name: "verification off", url: "https://wrong.test/", probe: func(p *v1alpha1.Probe) { p.CABundle, p.InsecureSkipVerify = nil, true }, want: passes},
		{name: "bundle without certificate", probe: func(p *v1alpha1.Probe) { p.CABundle = []byte("sentinel") }, want: failed, says: "caBundle"},
		{name: "old TLS", configure: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }, want: failed, says: "protocol version not supported"},
		{name: "another protocol in TLS", configure: func(c *tls.Config) { c.NextProtos = []string{"imap"} }, want: failed, says: "no application protocol"},
		{name: "wants a client certificate, TLS 1.2", configure: func(c *tls.Config) { c.MaxVersion, c.ClientAuth = tls.VersionTLS12, tls.RequireAnyClientCert }, want: failed, says: "the target refused the handshake"},
	}
}
