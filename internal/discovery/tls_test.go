package discovery

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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
	// In plain HTTP nothing is answered but that.
	plain, pr := dial(t, s.fixture)
	write(t, plain, post(`{}`))
	if line, err := pr.ReadString('\n'); err == nil && strings.Contains(line, "201") {
		t.Errorf("over HTTP: %q", line)
	}
	if n := s.ledger.Live(); n != 1 {
		t.Errorf("%d leases", n)
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
	write(t, conn, "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("A: b\r\n", maxUnprovenLines+10)+"\r\n")
	if line, err := r.ReadString('\n'); err == nil && strings.Contains(line, " 401") {
		t.Errorf("answered %q", line)
	}
}
