package health

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// odd are credentials that a URL, a header or a text encoding could mangle.
var odd = map[string]provider.Credentials{
	"plain":               secrets,
	"of URLs":             {Username: "a@b/?#%", Password: "p:@/?#% ü"},
	"percent sign":        {Username: "%41", Password: "%zz%0a"},
	"non-ASCII":           {Username: "größe", Password: "пароль"},
	"not UTF-8":           {Username: "raw\xff\xfe", Password: "\x80"},
	"empty password":      {Username: "user", Password: ""},
	"trailing newline":    {Username: "user", Password: "pass\n"},
	"header inside":       {Username: "user", Password: "pass\r\nX-Injected: yes\r\n\r\n"},
	"spaces at both ends": {Username: " user ", Password: " pass "},
	"long":                {Username: strings.Repeat("u", 1024), Password: strings.Repeat("p", 1024)},
}

// A proxy that asks for exactly these credentials is healthy with them, and with no others.
func TestCredentials(t *testing.T) {
	t.Parallel()
	address, ca := tlsOrigin(t, status(204))
	docs := readDocs(t)
	for name, c := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for url, then := range map[string]func(net.Conn){
				"https://example.com/": tunnels(established, address),
				"http://target.test/":  says("HTTP/1.1 204 No Content\r\n\r\n"),
			} {
				e := serve(t, asks(c, then))
				for _, try := range []struct {
					with       *provider.Credentials
					want, says string
				}{
					{&c, passes, "204"},
					{nil, v1alpha1.ReasonProxyAuthFailed, "names none"},
					{&provider.Credentials{Username: c.Username, Password: c.Password + "x"}, v1alpha1.ReasonProxyAuthFailed, "does not accept"},
					{&provider.Credentials{Username: c.Username + "x", Password: c.Password}, v1alpha1.ReasonProxyAuthFailed, "does not accept"},
					{&provider.Credentials{}, v1alpha1.ReasonProxyAuthFailed, "does not accept"},
				} {
					r := NewProber(ProberOptions{}).Probe(t.Context(), Target{
						Endpoint: e, Credentials: try.with, Probe: v1alpha1.Probe{URL: url, ExpectedStatus: 204, Timeout: enough, CABundle: ca},
					})
					checkMessage(t, r)
					if r.Reason != try.want || !strings.Contains(r.Message, try.says) || (!r.OK && !docs.has(r.Reason, r.Message)) {
						t.Errorf("%s with %+v: %+v, want %s with %q", url, try.with, r, try.want, try.says)
					}
				}
			}
		})
	}
}

// What the proxy and what the origin are shown, byte for byte.
func TestProbeRequests(t *testing.T) {
	t.Parallel()
	for name, c := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atProxy, atOrigin := make(chan string, 1), make(chan string, 1)
			address, ca := tlsOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				var b strings.Builder
				b.WriteString(r.Method + " " + r.RequestURI + " " + r.Proto + "\r\nHost: " + r.Host + "\r\n")
				_ = r.Header.Write(&b)
				atOrigin <- b.String()
				w.WriteHeader(204)
			})
			tunnelling := serve(t, func(conn net.Conn) {
				spy := &replayConn{Conn: conn}
				request, _ := head(spy)
				atProxy <- request
				spy.again()
				tunnels(established, address)(spy)
			})
			plain := serve(t, func(conn net.Conn) {
				request, _ := head(conn)
				atProxy <- request
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			p := NewProber(ProberOptions{})
			auth := "Proxy-Authorization: Basic " + basic(c) + "\r\n"
			for _, try := range []struct {
				url               string
				endpoint          int32
				atProxy, atOrigin string
			}{
				{"https://example.com?x=1", tunnelling.Port,
					"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: egress-proxies-operator\r\n" + auth + "\r\n",
					"GET /?x=1 HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\nUser-Agent: egress-proxies-operator\r\n"},
				{"https://user:word@example.com:8443/a/b?c=%20#d", tunnelling.Port,
					"CONNECT example.com:8443 HTTP/1.1\r\nHost: example.com:8443\r\nUser-Agent: egress-proxies-operator\r\n" + auth + "\r\n",
					"GET /a/b?c=%20 HTTP/1.1\r\nHost: example.com:8443\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\nUser-Agent: egress-proxies-operator\r\n"},
				{"http://example.com:8080/p?x=1", plain.Port,
					"GET http://example.com:8080/p?x=1 HTTP/1.1\r\nHost: example.com:8080\r\nUser-Agent: egress-proxies-operator\r\nAccept: */*\r\n" +
						"Accept-Encoding: identity\r\n" + auth + "Connection: close\r\n\r\n", ""},
			} {
				e := tunnelling
				e.Port = try.endpoint
				r := p.Probe(t.Context(), Target{Endpoint: e, Credentials: &c, Probe: v1alpha1.Probe{URL: try.url, ExpectedStatus: 204, Timeout: enough, CABundle: ca}})
				if !r.OK {
					t.Fatalf("%s: %+v", try.url, r)
				}
				if got := <-atProxy; got != try.atProxy {
					t.Errorf("%s: the proxy is shown\n%q, want\n%q", try.url, got, try.atProxy)
				}
				if try.atOrigin == "" {
					continue
				}
				if got := <-atOrigin; got != try.atOrigin {
					t.Errorf("%s: the origin is shown\n%q, want\n%q", try.url, got, try.atOrigin)
				}
			}
		})
	}
}
