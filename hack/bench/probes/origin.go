package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// originHost is the name that probes ask for. Every proxy leads to the origin, whatever it is asked for.
const originHost = "origin.example"

// originReady is where the origin listens and whom to trust for it.
type originReady struct {
	Addr string
	CA   []byte
}

// serveOrigin is the process of the target: it answers every request with 204, over TLS.
func serveOrigin(ctx context.Context) error {
	cert, ca, err := certificate()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // of handshakes that were under way when a prober ended
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	return obey(originReady{Addr: l.Addr().String(), CA: ca}, func(nothing) (nothing, error) { return nothing{}, nil })
}

// certificate returns one for originHost and, as PEM, the authority that signed it.
func certificate() (leaf tls.Certificate, ca []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leafKey, leafErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err, leafErr); err != nil {
		return leaf, nil, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	if err != nil {
		return leaf, nil, err
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: originHost}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{originHost}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	ownDER, err := x509.CreateCertificate(rand.Reader, own, root, &leafKey.PublicKey, caKey)
	if err != nil {
		return leaf, nil, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return tls.Certificate{Certificate: [][]byte{ownDER}, PrivateKey: leafKey}, ca, nil
}
