package discovery

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

// newCertificate returns a certificate for 127.0.0.1 that signs itself.
func newCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// secure is a fixture whose API speaks HTTPS with what certificate holds.
type secure struct {
	*fixture
	certificate atomic.Pointer[tls.Certificate]
}

func newSecureFixture(t *testing.T, with func(*testing.T, ...func(*Options)) *fixture, change ...func(*Options)) *secure {
	t.Helper()
	s := &secure{}
	s.certificate.Store(newCertificate(t))
	s.fixture = with(t, append(change, func(o *Options) {
		o.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil }}
	})...)
	return s
}

// trusting is a configuration of a client that trusts exactly that certificate.
func trusting(c *tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(c.Leaf)
	return &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}}
}

func (s *secure) dialTLS(t *testing.T) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	raw, _ := dial(t, s.fixture)
	config := trusting(s.certificate.Load())
	config.ServerName = "127.0.0.1"
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func TestHTTPS(t *testing.T) {
	s := newSecureFixture(t, newFixture)
	s.put("a")
	conn, r := s.dialTLS(t)
	if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("negotiated %q", p)
	}
	write(t, conn, post(`{}`))
	if status := readStatus(t, r); status != http.StatusCreated {
		t.Errorf("status %d", status)
	}
	write(t, conn, "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n"+bearer+"\r\n")
	if status := readStatus(t, r); status != http.StatusOK {
		t.Errorf("status %d on the same connection", status)
	}
	if n := s.ledger.Live(); n != 1 {
		t.Errorf("%d leases", n)
	}
}

// TestFailedHandshakesAreSeen: each with its reason, and none where nobody has begun one.
func TestFailedHandshakesAreSeen(t *testing.T) {
	var metrics recorder
	s := newSecureFixture(t, newFixture, func(o *Options) { o.Metrics, o.ReadHeaderTimeout = &metrics, 200*time.Millisecond })
	for _, tc := range []struct {
		reason, want string
		client       func(raw net.Conn)
	}{
		{"plain HTTP", connlimit.HandshakeNotTLS, func(raw net.Conn) {
			write(t, raw, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			if got, _ := io.ReadAll(raw); !strings.HasPrefix(string(got), "HTTP/1.0 400 ") || !strings.Contains(string(got), "HTTPS") {
				t.Errorf("it is answered with %q", got)
			}
		}},
		{"a client that does not trust it", connlimit.HandshakeRejected, func(raw net.Conn) {
			if err := tls.Client(raw, &tls.Config{ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12}).HandshakeContext(t.Context()); err == nil {
				t.Error("it trusts it")
			}
		}},
		{"an old version", connlimit.HandshakeOther, func(raw net.Conn) {
			config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11}
			if err := tls.Client(raw, config).HandshakeContext(t.Context()); err == nil {
				t.Error("it is spoken")
			}
		}},
		{"silence after the first bytes", connlimit.HandshakeTimeout, func(raw net.Conn) { write(t, raw, "\x16\x03\x01") }},
		{"a port scan", "", func(raw net.Conn) { _ = raw.Close() }},
		{"a request", "", func(raw net.Conn) {
			config := trusting(s.certificate.Load())
			config.ServerName = "127.0.0.1"
			conn := tls.Client(raw, config)
			write(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if got, err := io.ReadAll(conn); err != nil || !strings.Contains(string(got), " 200 ") {
				t.Errorf("%q, %v", got, err)
			}
		}},
	} {
		before := metrics.handshakes()
		raw, _ := dial(t, s.fixture)
		tc.client(raw)
		await(t, tc.reason, func() bool { return strings.TrimSpace(strings.TrimPrefix(metrics.handshakes(), before)) == tc.want })
		_ = raw.Close()
		await(t, "it has gone", func() bool { return s.server.Connections() == 0 })
		if got := strings.TrimSpace(strings.TrimPrefix(metrics.handshakes(), before)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// TestANewCertificateIsShownAtOnce: connections that are open go on.
func TestANewCertificateIsShownAtOnce(t *testing.T) {
	s := newSecureFixture(t, newFixture)
	old, r := s.dialTLS(t)
	next := newCertificate(t)
	s.certificate.Store(next)
	conn, _ := s.dialTLS(t)
	if !conn.ConnectionState().PeerCertificates[0].Equal(next.Leaf) {
		t.Error("a new connection gets the old certificate")
	}
	write(t, old, "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n"+bearer+"\r\n")
	if status := readStatus(t, r); status != http.StatusOK {
		t.Errorf("status %d on the old connection", status)
	}
}

// TestOldVersionsOfTLSAreRefused: 1.2 is the least.
func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	s := newSecureFixture(t, newFixture)
	raw, _ := dial(t, s.fixture)
	config := trusting(s.certificate.Load())
	config.ServerName, config.MinVersion, config.MaxVersion = "127.0.0.1", tls.VersionTLS11, tls.VersionTLS11
	if err := tls.Client(raw, config).HandshakeContext(t.Context()); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// TestAWaitEndsWithItsSecureConnection: who is gone gets no lease.
func TestAWaitEndsWithItsSecureConnection(t *testing.T) {
	s := newSecureFixture(t, newWaitFixture)
	s.put("a", withCap(1))
	held := s.acquireOver(t)
	conn, _ := s.dialTLS(t)
	write(t, conn, post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return s.ledger.Waiting() == 1 })
	_ = conn.Close()
	await(t, "nobody waits", func() bool { return s.ledger.Waiting() == 0 })
	if err := s.ledger.Release(held, DefaultPrincipal); err != nil {
		t.Fatal(err)
	}
	if n := s.ledger.Live(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

func (s *secure) acquireOver(t *testing.T) (id string) {
	t.Helper()
	conn, r := s.dialTLS(t)
	write(t, conn, post(`{}`))
	var l leaseView
	a := readAnswer(t, r)
	a.into(t, &l)
	return l.LeaseID
}

// TestThoseWhoNeverShakeHandsKeepNobodyOut: they have no place for good, like all who show no token.
func TestThoseWhoNeverShakeHandsKeepNobodyOut(t *testing.T) {
	s := newSecureFixture(t, newFixture, func(o *Options) { o.MaxConnections = 4 })
	for range 4 {
		dial(t, s.fixture)
	}
	began := time.Now()
	conn, r := s.dialTLS(t)
	write(t, conn, "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n"+bearer+"\r\n")
	if status := readStatus(t, r); status != http.StatusOK || time.Since(began) > 10*time.Second {
		t.Errorf("status %d after %s", status, time.Since(began))
	}
}

// TestAHeaderOfManyLinesIsCutOffInsideOfTLS: it is the lines of the request that count.
func TestAHeaderOfManyLinesIsCutOffInsideOfTLS(t *testing.T) {
	s := newSecureFixture(t, newFixture)
	conn, r := s.dialTLS(t)
	write(t, conn, "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("A: b\r\n", connlimit.MaxUnprovenLines+10)+"\r\n")
	if line, err := r.ReadString('\n'); err == nil && strings.Contains(line, " 401") {
		t.Errorf("answered %q", line)
	}
}
