// Command target is a website for tests in a cluster: over HTTP on port 8080 and over TLS, with a certificate that nobody
// knows, on port 8443, it answers 204 to /probe and otherwise says who asked and with what.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/util/cert"
)

// Asked is the answer to anything but /probe.
type Asked struct {
	From   string      `json:"from"`
	Header http.Header `json:"header"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("target.test", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":8080")
	if err != nil {
		return err
	}
	secure, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":8443")
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(plain) }()
	go func() { ended <- server.ServeTLS(secure, "", "") }()
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-ended:
		return errors.Join(err, server.Close())
	}
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/probe" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(Asked{From: r.RemoteAddr, Header: r.Header}); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
	}
}
