package lease

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a ledger over a fleet that the test changes at will.
type fixture struct {
	fleet  *fleet.Store
	clock  *clocktesting.FakeClock
	ledger *Ledger
}

func newFixture(tb failer, change ...func(*Options)) *fixture {
	tb.Helper()
	f := &fixture{fleet: fleet.NewStore(), clock: clocktesting.NewFakeClock(epoch)}
	o := Options{Fleet: f.fleet, Clock: f.clock}
	for _, c := range change {
		c(&o)
	}
	ledger, err := New(o)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	f.ledger = ledger
	return f
}

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }

// put makes the fleet hold a Managed proxy that is offered, unless change says otherwise.
func (f *fixture) put(n string, change ...func(*fleet.Proxy)) fleet.LeaseKey {
	p := &fleet.Proxy{
		Key: name(n), UID: "uid-" + n, Mode: v1alpha1.ModeManaged, Provider: "local", Attempt: 1,
		Endpoint:   fleet.Endpoint{Scheme: "http", Host: n + ".proxies.test", Port: 3128},
		Attributes: map[string]string{"country": "de"}, Provisioned: true, Phase: v1alpha1.PhaseReady,
	}
	for _, c := range change {
		c(p)
	}
	key := p.LeaseKey()
	subject := p.Subject()
	f.fleet.Apply(p)
	f.verdict(n, subject, fleet.Healthy, 10*time.Millisecond)
	return key
}

func (f *fixture) verdict(n string, subject fleet.Subject, health fleet.Health, latency time.Duration) {
	f.fleet.SetVerdict(name(n), fleet.Verdict{Subject: subject, Health: health, Latency: latency})
}

func (f *fixture) latency(n string, latency time.Duration) {
	f.verdict(n, f.fleet.Get(name(n)).Subject(), fleet.Healthy, latency)
}

func (f *fixture) unhealthy(n string) {
	f.verdict(n, f.fleet.Get(name(n)).Subject(), fleet.Unhealthy, 0)
}

func withCap(n int32) func(*fleet.Proxy) { return func(p *fleet.Proxy) { p.Cap = n } }
func attempt(n int64) func(*fleet.Proxy) { return func(p *fleet.Proxy) { p.Attempt = n } }
func cordoned(p *fleet.Proxy)            { p.Cordoned = true }
func draining(p *fleet.Proxy)            { p.Draining = true }
func external(host string) func(*fleet.Proxy) {
	return func(p *fleet.Proxy) {
		p.Mode, p.Provider, p.Attempt = v1alpha1.ModeExternal, "", 0
		p.Endpoint = fleet.Endpoint{Scheme: "http", Host: host, Port: 8080}
	}
}

func ask(target string) Request {
	return Request{Query: Query{Target: target}, TTL: time.Minute, Principal: "crawler"}
}

func (f *fixture) acquire(tb failer, req Request) Lease {
	tb.Helper()
	l, err := f.ledger.Acquire(context.Background(), req)
	if err != nil {
		tb.Fatalf("Acquire: %v", err)
	}
	return l
}

func (f *fixture) refused(tb failer, req Request) NoMatchError {
	tb.Helper()
	l, err := f.ledger.Acquire(context.Background(), req)
	var refused *NoMatchError
	if !errors.As(err, &refused) {
		tb.Fatalf("Acquire = %v, %v; want a NoMatchError", l.ID, err)
	}
	return *refused
}

func (f *fixture) report(tb failer, l Lease, target string) {
	tb.Helper()
	if err := f.ledger.Report(l.ID, l.Principal, ResultBanned, target); err != nil {
		tb.Fatalf("Report: %v", err)
	}
}

func wantErr(tb failer, what string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}
