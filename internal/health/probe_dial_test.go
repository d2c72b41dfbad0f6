package health

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestProbeCannotConnect(t *testing.T) {
	broken := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("sentinel-pass")
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := endpointOf(t, l.Addr().String())
	_ = l.Close()
	named := func(host string) fleet.Endpoint {
		return fleet.Endpoint{Scheme: "http", Host: host, Port: refusing.Port}
	}
	names := resolves(t, map[string][]string{"dead.test": {"127.0.0.1", "::1"}, "empty.test": {}})
	cases := []struct {
		name     string
		endpoint fleet.Endpoint
		resolver *net.Resolver
		says     string
	}{
		{"connection refused", refusing, nil, "cannot connect to " + refusing.Address() + ": connection refused"},
		{"by name", named("dead.test"), names, ": connection refused"},
		{"no such name", named("missing.test"), names, "cannot connect to " + named("missing.test").Address() + ": no such host"},
		{"name without address", named("empty.test"), names, ": no such host"},
		{"resolver fails", named("dead.test"), broken, ": the host name cannot be resolved"},
		{"an address of nobody's", fleet.Endpoint{Scheme: "http", Host: "255.255.255.255", Port: 1}, nil, "cannot connect to 255.255.255.255:1: "},
	}
	docs := readDocs(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewProber(ProberOptions{Resolver: c.resolver}).Probe(t.Context(), Target{
				Endpoint: c.endpoint, Probe: v1alpha1.Probe{URL: "https://example.com/", Timeout: enough},
			})
			checkMessage(t, r)
			if r.OK || r.Reason != v1alpha1.ReasonDialFailed || !strings.Contains(r.Message, c.says) || !docs.has(r.Reason, r.Message) {
				t.Errorf("got %+v, want %s with %q", r, v1alpha1.ReasonDialFailed, c.says)
			}
		})
	}
}

// IPv6 alone, as an address and by name; and a name of both families of which only one answers.
func TestProbeIPv6Only(t *testing.T) {
	address, ca := tlsOrigin(t, status(204))
	secure := serveOn(t, "[::1]:0", tunnels(established, address))
	plain := serveOn(t, "[::1]:0", says("HTTP/1.1 204 No Content\r\n\r\n"))
	names := resolves(t, map[string][]string{"six.test": {"::1"}, "both.test": {"127.0.0.1", "::1"}})
	for _, host := range []string{"::1", "six.test", "both.test"} {
		for target, e := range map[string]fleet.Endpoint{
			"https://example.com/":   secure,
			"https://[::1]/":         secure,
			"http://target.test/":    plain,
			"http://[2001:db8::1]/a": plain,
		} {
			e.Host = host
			r := NewProber(ProberOptions{Resolver: names}).Probe(t.Context(), Target{
				Endpoint: e, Probe: v1alpha1.Probe{URL: target, Timeout: enough, CABundle: ca},
			})
			if !r.OK {
				t.Errorf("%s through %s: %+v", target, e.Address(), r)
			}
		}
	}
}

func TestDialPolicy(t *testing.T) {
	dialled := make(chan struct{}, 10)
	e := serve(t, func(c net.Conn) { dialled <- struct{}{}; says("HTTP/1.1 204 No Content\r\n\r\n")(c) })
	names := resolves(t, map[string][]string{"inside.test": {"127.0.0.1"}, "meta.test": {"169.254.169.254"}, "mapped.test": {"::ffff:127.0.0.1"}})
	probe := v1alpha1.Probe{URL: "http://target.test/", Timeout: enough}
	strict := NewProber(ProberOptions{DialPolicy: RefuseInternal(nil), Resolver: names})
	docs := readDocs(t)
	for host, kind := range map[string]string{
		e.Host: "a loopback", "localhost": "a loopback", "inside.test": "a loopback", "mapped.test": "a loopback",
		"meta.test": "a link-local", "0.0.0.0": "the unspecified", "100.100.100.200": "a metadata service",
	} {
		r := strict.Probe(t.Context(), Target{Endpoint: fleet.Endpoint{Scheme: "http", Host: host, Port: e.Port}, External: true, Probe: probe})
		if r.Reason != v1alpha1.ReasonProxyRefused || !strings.Contains(r.Message, "resolves to "+kind+" address") || !docs.has(r.Reason, r.Message) {
			t.Errorf("%s: %+v", host, r)
		}
	}
	select {
	case <-dialled:
		t.Error("a refused address was dialled")
	default:
	}
	if r := strict.Probe(t.Context(), Target{Endpoint: e, Probe: probe}); !r.OK {
		t.Errorf("Managed: %+v", r)
	}
	lenient := NewProber(ProberOptions{DialPolicy: RefuseInternal([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})})
	if r := lenient.Probe(t.Context(), Target{Endpoint: e, External: true, Probe: probe}); !r.OK {
		t.Errorf("allowed: %+v", r)
	}
}

func TestRefuseInternal(t *testing.T) {
	policy := RefuseInternal([]netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")})
	for _, a := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1%eth0", "0.0.0.0", "::",
		"fd00:ec2::254", "100.100.100.200", "192.0.0.192",
	} {
		if policy(netip.MustParseAddr(a)) == nil {
			t.Errorf("%s is let through", a)
		}
	}
	for _, a := range []string{"127.0.0.9", "::ffff:127.0.0.9", "192.0.2.1", "10.0.0.1", "2001:db8::1", "64:ff9b::c000:201", "100.100.100.201"} {
		if err := policy(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}
