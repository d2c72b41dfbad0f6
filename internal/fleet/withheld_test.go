package fleet_test

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// TestWithheldOrder piles up every reason and takes them away one by one: what is said is always the first that holds.
func TestWithheldOrder(t *testing.T) {
	p := managed("a", withRevision("r1"))
	p.Deleting, p.Draining, p.Cordoned, p.Provisioned, p.CredentialsMissing, p.AddressLost = true, true, true, false, true, true
	p.Verdict = fleet.Verdict{Subject: fleet.Subject{UID: "another"}, Health: fleet.Healthy}
	for _, step := range []struct {
		want   fleet.Withheld
		remove func()
	}{
		{fleet.WithheldDeleting, func() { p.Deleting = false }},
		{fleet.WithheldDraining, func() { p.Draining = false }},
		{fleet.WithheldCordoned, func() { p.Cordoned = false }},
		{fleet.WithheldUnavailable, func() { p.Provisioned = true; p.Endpoint.Host = "" }},
		{fleet.WithheldUnavailable, func() { p.Endpoint.Host = "a.test" }},
		{fleet.WithheldCredentials, func() { p.CredentialsMissing = false }},
		{fleet.WithheldAddress, func() { p.AddressLost = false }},
		{fleet.WithheldUnprobed, func() { p.Verdict = fleet.Verdict{Subject: p.Subject()} }},
		{fleet.WithheldUnprobed, func() { p.Verdict.Health = fleet.Unhealthy }},
		{fleet.WithheldUnhealthy, func() { p.Verdict.Health = fleet.Healthy }},
		{fleet.WithheldNot, func() {}},
	} {
		if got := p.Withheld(); got != step.want {
			t.Fatalf("withheld as %q, want %q", got, step.want)
		}
		step.remove()
	}
}

// TestHealthyMeansExactlyThis changes each part of the subject under a verdict.
func TestHealthyMeansExactlyThis(t *testing.T) {
	for what, change := range map[string]func(*fleet.Proxy){
		"UID":      func(p *fleet.Proxy) { p.UID = "u2" },
		"attempt":  func(p *fleet.Proxy) { p.Attempt++ },
		"host":     func(p *fleet.Proxy) { p.Endpoint.Host = "b.test" },
		"port":     func(p *fleet.Proxy) { p.Endpoint.Port++ },
		"rotation": func(p *fleet.Proxy) { withRevision("r2")(p); p.Attempt++ },
		"auth":     func(p *fleet.Proxy) { p.Credentials = nil },
	} {
		t.Run(what, func(t *testing.T) {
			s := fleet.NewStore()
			s.Apply(managed("a", withRevision("r1")))
			verdict := fleet.Verdict{Subject: s.Get(name("a")).Subject(), Health: fleet.Healthy}
			if !s.SetVerdict(name("a"), verdict) || s.Get(name("a")).Withheld() != fleet.WithheldNot {
				t.Fatal("a verdict about the current subject does not count")
			}
			s.Apply(managed("a", withRevision("r1"), change))
			if got := s.Get(name("a")); got.Withheld() != fleet.WithheldUnprobed || got.Verdict.Health != fleet.HealthUnknown {
				t.Errorf("offered on a verdict about another subject: %+v", got)
			}
			if s.SetVerdict(name("a"), verdict) {
				t.Error("a late verdict about the old subject was taken")
			}
		})
	}
}
