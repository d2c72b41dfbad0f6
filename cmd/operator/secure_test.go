package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// writeCertificate makes a certificate for 127.0.0.1 and exchanges the files for it, each as a whole.
func writeCertificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fatal(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	fatal(t, err)
	for name, block := range map[string]*pem.Block{"tls.key": {Type: "PRIVATE KEY", Bytes: keyDER}, "tls.crt": {Type: "CERTIFICATE", Bytes: der}} {
		file := filepath.Join(dir, name)
		fatal(t, os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600))
		fatal(t, os.Rename(file+".new", file))
	}
	certificate, err := x509.ParseCertificate(der)
	fatal(t, err)
	return certificate
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheAPISpeaksHTTPS: with the certificate of the files, and with another one soon after they were exchanged. pkg/client
// leases over it.
func TestTheAPISpeaksHTTPS(t *testing.T) {
	dir := t.TempDir()
	first := writeCertificate(t, dir)
	p := startOperator(t, "providers: []\n", "--discovery-tls-cert-file", filepath.Join(dir, "tls.crt"), "--discovery-tls-key-file", filepath.Join(dir, "tls.key"))
	shown := func() []byte {
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := d.DialContext(t.Context(), "tcp", p.api)
		if err != nil {
			return nil
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
	}
	until(t, "the first certificate", func() bool { return bytes.Equal(shown(), first.Raw) })
	roots := x509.NewCertPool()
	roots.AddCert(first)
	c, err := client.New(client.Options{
		BaseURL: "https://" + p.api, Token: "t0ken-of-the-test",
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
	})
	fatal(t, err)
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	until(t, "an answer of the leader", func() bool {
		for _, err := range c.Proxies(t.Context(), client.ListOptions{}) {
			return err == nil
		}
		return true
	})
	second := writeCertificate(t, dir)
	until(t, "the second certificate", func() bool { return bytes.Equal(shown(), second.Raw) })
	// What cannot be used leaves the one before in force.
	fatal(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("no certificate"), 0o600))
	until(t, "a word about it", func() bool {
		return strings.Contains(p.log.String(), "certificate") && strings.Contains(p.log.String(), `"level":"error"`)
	})
	if !bytes.Equal(shown(), second.Raw) {
		t.Error("a certificate that cannot be used is in force")
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}

// TestCertificatesThatCannotBeUsedAreSaidAtTheStart names the flags and the files.
func TestCertificatesThatCannotBeUsedAreSaidAtTheStart(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	key := filepath.Join(dir, "tls.key")
	for name, cert := range map[string]string{"missing": filepath.Join(dir, "missing.crt"), "a key": key} {
		p := startOperator(t, "providers: []\n", "--discovery-tls-cert-file", cert, "--discovery-tls-key-file", key)
		select {
		case err := <-p.ended:
			if log := p.log.String(); err == nil || !strings.Contains(log, "--discovery-tls-cert-file="+cert) {
				t.Errorf("%s: %v, log %s", name, err, log)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it runs", name)
		}
	}
}
