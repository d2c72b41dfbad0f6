package health

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// dripPause is between two bytes of what drips.
const dripPause = short / 10

// drips says text and goes on one byte at a time until the other side has had enough: it is never silent for long.
func drips(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		return
	}
	for {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		<-time.After(dripPause)
	}
}

// swallow reads until the other side closes.
func swallow(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// reset closes c with an RST.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// asks is a proxy that wants exactly c, and says 407 to all others.
func asks(c provider.Credentials, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		spy := &replayConn{Conn: conn}
		request, _ := head(spy)
		if !strings.Contains(request, "\r\nProxy-Authorization: Basic "+basic(c)+"\r\n") {
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"sentinel-pass\"\r\n\r\n")
			swallow(conn)
			return
		}
		spy.again()
		then(spy)
	}
}

// replayConn lets what was read be read once more.
type replayConn struct {
	net.Conn
	seen   bytes.Buffer
	replay io.Reader
}

func (c *replayConn) Read(p []byte) (int, error) {
	if c.replay != nil {
		return c.replay.Read(p)
	}
	n, err := c.Conn.Read(p)
	c.seen.Write(p[:n])
	return n, err
}

func (c *replayConn) again() { c.replay = io.MultiReader(&c.seen, c.Conn) }

// raw is an origin's handler that writes to the connection itself.
func raw(f func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = c.Close() }()
		f(c)
	}
}

// writes is an origin that answers with text, byte for byte, and closes.
func writes(text string) http.HandlerFunc {
	return raw(func(c net.Conn) { _, _ = io.WriteString(c, text) })
}

// bombs is an origin that sends a gzip body of a few KiB that unpacks to 32 MiB, again and again for ever.
func bombs() http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 32<<20))
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for {
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
		}
	}
}

// tlsOrigin returns the address of an https server and the PEM of its self-signed certificate, which is valid for
// example.com, 127.0.0.1 and ::1.
func tlsOrigin(t testing.TB, h http.HandlerFunc) (address string, ca []byte) {
	t.Helper()
	return tlsOriginWith(t, h, nil, nil)
}

// tlsOriginWith is tlsOrigin with another certificate and another configuration, where these are not nil.
func tlsOriginWith(t testing.TB, h http.HandlerFunc, sign func(*x509.Certificate), configure func(*tls.Config)) (address string, ca []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, sign)}} // cheaper than the RSA one of httptest
	s.StartTLS()
	if configure != nil {
		configure(s.TLS)
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.TLS.Certificates[0].Certificate[0]})
}

// certificate returns a self-signed one, changed by sign.
func certificate(t testing.TB, sign func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if sign != nil {
		sign(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// resolves returns a resolver that asks a name server of the test's own, which knows these names and no other.
func resolves(t testing.TB, names map[string][]string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerDNS(buf[:n], names); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func answerDNS(query []byte, names map[string][]string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	addresses, known := names[strings.TrimSuffix(q.Name.String(), ".")]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch ip := netip.MustParseAddr(a); {
		case ip.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	return m.Pack()
}
