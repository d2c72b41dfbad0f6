package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/egress-proxies/egress-proxies-operator/internal/scrapeauth"
)

// What the manifests have to grant for asking the cluster who may see metrics.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// serveMetrics has metrics served to whom the cluster lets get them, or over HTTP to everybody.
func (a *app) serveMetrics(ctx context.Context) error {
	o := a.o
	if o.metricsAddress == "0" {
		return nil
	}
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
		DisableCompression: true, // a compressor takes a megabyte for each scrape, of a few dozen that there are to spare
	})
	if !o.metricsSecure {
		return servePort(ctx, a.mgr, "metrics-bind-address", o.metricsAddress, nil, metricsOnly(handler))
	}
	secure, err := a.metricsTLS()
	if err != nil {
		return err
	}
	authentication, err := authenticationv1.NewForConfigAndClient(a.mgr.GetConfig(), a.mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	authorization, err := authorizationv1.NewForConfigAndClient(a.mgr.GetConfig(), a.mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	gate := scrapeauth.New(scrapeauth.Options{
		Authentication: authentication, Authorization: authorization, Clock: a.clock, Log: a.mgr.GetLogger().WithName("metrics"),
	})
	return servePort(ctx, a.mgr, "metrics-bind-address", o.metricsAddress, secure, gate.Wrap(metricsOnly(handler)))
}

// maxScrapes bounds how many scrapes are answered at one time: each builds the whole answer in memory.
const maxScrapes = 4

// metricsOnly serves handler at /metrics.
func metricsOnly(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	return mux
}

// metricsTLS has the certificate of the folder, followed as it changes, or one that nobody can verify.
func (a *app) metricsTLS() (*tls.Config, error) {
	if a.o.metricsCerts == "" {
		crt, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil, "")
		if err != nil {
			return nil, fmt.Errorf("making a certificate for metrics: %w", err)
		}
		pair, err := tls.X509KeyPair(crt, key)
		if err != nil {
			return nil, fmt.Errorf("making a certificate for metrics: %w", err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
	}
	w, err := certwatcher.New(filepath.Join(a.o.metricsCerts, "tls.crt"), filepath.Join(a.o.metricsCerts, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--metrics-cert-dir=%s: %w", a.o.metricsCerts, err)
	}
	if err := a.follow("metrics", w); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: w.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// follow has the certificate read again when its files change, and shown in metrics when it ends.
func (a *app) follow(use string, w *certwatcher.CertWatcher) error {
	a.certificates[use] = func() time.Time {
		pair, err := w.GetCertificate(nil)
		if err != nil || pair == nil || pair.Leaf == nil {
			return time.Time{}
		}
		return pair.Leaf.NotAfter
	}
	return a.mgr.Add(w)
}

// serveProbes answers the kubelet.
func (a *app) serveProbes(ctx context.Context) error {
	if a.o.probesAddress == "0" {
		return nil
	}
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET /readyz", ok)
	return servePort(ctx, a.mgr, "health-probe-bind-address", a.o.probesAddress, nil, mux)
}

// discoveryTLS returns how the discovery API speaks TLS; nil for not at all.
func (a *app) discoveryTLS() (*tls.Config, error) {
	o := a.o
	if o.discoveryCert == "" {
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	w, err := certwatcher.New(o.discoveryCert, o.discoveryKey)
	if err != nil {
		return nil, fmt.Errorf("--discovery-tls-cert-file=%s, --discovery-tls-key-file=%s: %w", o.discoveryCert, o.discoveryKey, err)
	}
	if err := a.follow("discovery", w); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: w.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}
