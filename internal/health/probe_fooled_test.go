package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"golang.org/x/net/http/httpproxy"
)

// Probers as one would write them at first. The tests that a TunnelProber passes must be able to fail: these do.

// pooledProber keeps its tunnels, as an http.Client does by itself.
type pooledProber struct{ transport *http.Transport }

func newPooledProber(t *testing.T, to Target) *pooledProber {
	t.Helper()
	p := &pooledProber{transport: &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: to.Endpoint.Address()}),
		TLSClientConfig: rootsOf(t, to),
	}}
	t.Cleanup(p.transport.CloseIdleConnections)
	return p
}

func (p *pooledProber) Probe(ctx context.Context, to Target) Result {
	return getWith(ctx, p.transport, to)
}

// heedfulProber goes by the proxy variables of the environment, and uses the target's proxy where there are none.
type heedfulProber struct{ t *testing.T }

func (p *heedfulProber) Probe(ctx context.Context, to Target) Result {
	env := httpproxy.FromEnvironment()
	through := "http://" + to.Endpoint.Address()
	if env.HTTPProxy == "" {
		env.HTTPProxy = through
	}
	if env.HTTPSProxy == "" {
		env.HTTPSProxy = through
	}
	return getWith(ctx, &http.Transport{
		Proxy:             func(r *http.Request) (*url.URL, error) { return env.ProxyFunc()(r.URL) },
		TLSClientConfig:   rootsOf(p.t, to),
		DisableKeepAlives: true,
		// What it gets wrong must not leave this machine.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if ap, err := netip.ParseAddrPort(address); err != nil || !ap.Addr().IsLoopback() {
				return nil, fmt.Errorf("went past the proxy to %s", address)
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}, to)
}

func rootsOf(t *testing.T, to Target) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	if len(to.Probe.CABundle) > 0 && !roots.AppendCertsFromPEM(to.Probe.CABundle) {
		t.Fatal("no certificate in the bundle")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func getWith(ctx context.Context, transport *http.Transport, to Target) Result {
	ctx, cancel := context.WithTimeout(ctx, to.Probe.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.Probe.URL, nil)
	if err != nil {
		return Result{Message: err.Error()}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return Result{Message: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	return Result{OK: expected(resp.StatusCode, to.Probe.ExpectedStatus), Message: resp.Status}
}
