package main

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// What the manifests have to grant for asking the cluster who may see metrics.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsServer is how metrics are served.
func (o *options) metricsServer() metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.metricsSecure {
		out.SecureServing, out.FilterProvider, out.CertDir = true, forReaders, o.metricsCerts
		// No HTTP/2, whose streams make it costly to serve strangers; CVE-2023-44487 was one case of that.
		out.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12 }}
	}
	return out
}

// forReaders lets through whom the cluster lets get the path. Strangers can make every request fail, so that is no error here
// that would be worth a line each time.
func forReaders(c *rest.Config, h *http.Client) (metricsserver.Filter, error) {
	filter, err := filters.WithAuthenticationAndAuthorization(c, h)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return filter(logr.New(quiet{log.GetSink()}), next)
	}, nil
}

// quiet logs errors at verbosity 1.
type quiet struct{ logr.LogSink }

// Error implements logr.LogSink.
func (q quiet) Error(err error, message string, values ...any) {
	if q.Enabled(1) {
		q.Info(1, message, append(values, "error", err.Error())...)
	}
}

// WithValues implements logr.LogSink.
func (q quiet) WithValues(values ...any) logr.LogSink { return quiet{q.LogSink.WithValues(values...)} }

// WithName implements logr.LogSink.
func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }

// discoveryTLS returns how the discovery API speaks TLS, and what keeps the certificate up to date; nil for neither.
func (o *options) discoveryTLS() (*tls.Config, *certwatcher.CertWatcher, error) {
	if o.discoveryCert == "" {
		return nil, nil, nil
	}
	w, err := certwatcher.New(o.discoveryCert, o.discoveryKey)
	if err != nil {
		return nil, nil, fmt.Errorf("--discovery-tls-cert-file=%s, --discovery-tls-key-file=%s: %w", o.discoveryCert, o.discoveryKey, err)
	}
	return &tls.Config{GetCertificate: w.GetCertificate, MinVersion: tls.VersionTLS12}, w, nil
}
