package fleet_test

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// healthy records a verdict about what the store holds under n now.
func healthy(t *testing.T, s *fleet.Store, n string) {
	t.Helper()
	if !s.SetVerdict(name(n), fleet.Verdict{Subject: s.Get(name(n)).Subject(), Health: fleet.Healthy}) {
		t.Fatalf("a verdict about %s was not taken", n)
	}
}

// setGone marks what the store holds under n.
func setGone(t *testing.T, s *fleet.Store, n string, is bool) {
	t.Helper()
	if !s.SetGone(name(n), s.Get(name(n)).Instance(), is) {
		t.Fatalf("%s is not taken to be gone: %v", n, is)
	}
}

func wantWithheld(t *testing.T, s *fleet.Store, when string, want fleet.Withheld, probeable bool) {
	t.Helper()
	if p := s.Get(name("a")); p.Withheld() != want || p.Probeable() != probeable {
		t.Errorf("%s: withheld as %q, probeable %v; want %q, %v", when, p.Withheld(), p.Probeable(), want, probeable)
	}
}

// TestWhatIsGoneIsNeitherOfferedNorProbed: whoever has the address now must get neither clients nor credentials. That it
// is back says nothing of how well.
func TestWhatIsGoneIsNeitherOfferedNorProbed(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a", withRevision("r1")))
	healthy(t, s, "a")
	wantWithheld(t, s, "before", fleet.WithheldNot, true)
	setGone(t, s, "a", true)
	wantWithheld(t, s, "gone", fleet.WithheldGone, false)
	if v := s.Get(name("a")).Verdict; v.Health != fleet.HealthUnknown {
		t.Errorf("gone, and still called healthy: %+v", v)
	}
	healthy(t, s, "a") // of a probe that was under way
	wantWithheld(t, s, "gone, with a late verdict", fleet.WithheldGone, false)
	setGone(t, s, "a", false)
	wantWithheld(t, s, "back, nobody has looked yet", fleet.WithheldUnprobed, true)
	healthy(t, s, "a")
	wantWithheld(t, s, "back and probed", fleet.WithheldNot, true)
}

// TestGoneComesAfterWhatTheUserCanMend, and before what follows from it.
func TestGoneComesAfterWhatTheUserCanMend(t *testing.T) {
	p := managed("a")
	p.Gone, p.AddressLost, p.CredentialsMissing = true, true, true
	if got := p.Withheld(); got != fleet.WithheldCredentials {
		t.Errorf("withheld as %q, want %q", got, fleet.WithheldCredentials)
	}
	p.CredentialsMissing = false
	if got := p.Withheld(); got != fleet.WithheldGone {
		t.Errorf("withheld as %q, want %q", got, fleet.WithheldGone)
	}
}

// TestWhatIsGoneClaimsNoAddress: its address may be another's by now, who is not to wait for the status.
func TestWhatIsGoneClaimsNoAddress(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("b", at("x.test", epoch)))
	s.Apply(managed("a", at("x.test", epoch.Add(time.Second))))
	healthy(t, s, "b")
	wantClaim(t, s, "a came later", false, true)
	w := s.Watch()
	w.Take()
	setGone(t, s, "a", true)
	wantClaim(t, s, "a is gone", false, false)
	if got := s.Get(name("b")).Withheld(); got != fleet.WithheldNot {
		t.Errorf("b is withheld as %q with nobody else at its address", got)
	}
	if got := w.Take(); len(got) != 2 {
		t.Errorf("told are %v, want a and b", got)
	}
	s.Apply(managed("a", at("x.test", epoch.Add(time.Hour))))
	wantClaim(t, s, "a is gone and observed anew", false, false)
	setGone(t, s, "a", false)
	wantClaim(t, s, "a is back", false, true)
	s.Apply(managed("b", at("x.test", epoch.Add(2*time.Hour))))
	wantClaim(t, s, "b was observed there since", true, false)
	setGone(t, s, "a", true)
	wantClaim(t, s, "the one that lost it is gone", false, false)
	setGone(t, s, "a", false)
	wantClaim(t, s, "and back", true, false)
}

// TestGoneIsAboutOneInstance: what the status says of the same instance does not bring it back, and another one is there.
func TestGoneIsAboutOneInstance(t *testing.T) {
	type proxy = fleet.Proxy
	for what, tc := range map[string]struct {
		change func(*proxy)
		stays  bool
	}{
		"nothing":     {func(*proxy) {}, true},
		"attributes":  {func(p *proxy) { p.Attributes = map[string]string{"country": "de"} }, true},
		"credentials": {withRevision("r2"), true},
		"probe":       {func(p *proxy) { p.Probe.URL = "https://other.test/" }, true},
		"cordoned":    {func(p *proxy) { p.Cordoned = true }, true},
		"status": {func(p *proxy) {
			p.Generation, p.Provisioned, p.Draining, p.Phase = 7, false, true, v1alpha1.PhaseUnhealthy
		}, true},
		"exit address": {func(p *proxy) { p.ExitAddress = "192.0.2.1" }, true},
		"observed":     {func(p *proxy) { p.ObservedAt = epoch.Add(time.Hour) }, true},
		"attempt":      {func(p *proxy) { p.Attempt++ }, false},
		"ID":           {func(p *proxy) { p.ProviderID = "id-b" }, false},
		"UID":          {func(p *proxy) { p.UID = "another" }, false},
		"host":         {func(p *proxy) { p.Endpoint.Host = "b.test" }, false},
		"port":         {func(p *proxy) { p.Endpoint.Port++ }, false},
		"no address":   {func(p *proxy) { p.Endpoint.Host, p.Endpoint.Port = "", 0 }, false},
	} {
		t.Run(what, func(t *testing.T) {
			s := fleet.NewStore()
			s.Apply(managed("a", withRevision("r1")))
			setGone(t, s, "a", true)
			s.Apply(managed("a", withRevision("r1"), tc.change))
			if got := s.Get(name("a")).Gone; got != tc.stays {
				t.Errorf("gone: %v, want %v", got, tc.stays)
			}
			s.Apply(managed("a", withRevision("r1")))
			if got := s.Get(name("a")).Gone; got != tc.stays {
				t.Errorf("gone once it is taken back: %v, want %v", got, tc.stays)
			}
		})
	}
	s := fleet.NewStore()
	s.Apply(managed("a"))
	setGone(t, s, "a", true)
	s.Remove(name("a"), "uid-a")
	s.Apply(managed("a", func(p *proxy) { p.Gone = false }))
	if s.Get(name("a")).Gone {
		t.Error("the mark outlives the snapshot")
	}
}

// TestWhatIsToldOfAnotherInstanceChangesNothing.
func TestWhatIsToldOfAnotherInstanceChangesNothing(t *testing.T) {
	type instance = fleet.Instance
	for what, change := range map[string]func(*instance){
		"UID":     func(i *instance) { i.UID = "another" },
		"ID":      func(i *instance) { i.ID = "id-b" },
		"attempt": func(i *instance) { i.Attempt++ },
		"scheme":  func(i *instance) { i.Endpoint.Scheme = "https" },
		"host":    func(i *instance) { i.Endpoint.Host = "b.test" },
		"port":    func(i *instance) { i.Endpoint.Port++ },
	} {
		for _, was := range []bool{false, true} {
			s := fleet.NewStore()
			s.Apply(managed("a"))
			setGone(t, s, "a", was)
			inst := s.Get(name("a")).Instance()
			before, w := s.Get(name("a")), s.Watch()
			w.Take()
			other := inst
			change(&other)
			if s.SetGone(name("a"), other, !was) || s.SetGone(name("b"), inst, !was) {
				t.Errorf("%s: taken, while gone is %v", what, was)
			}
			if s.Get(name("a")) != before || s.Get(name("b")) != nil || len(w.Take()) != 0 {
				t.Errorf("%s: something changed, while gone is %v", what, was)
			}
		}
	}
}

func TestWatchersAreToldOnceOfWhatIsGone(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a"))
	healthy(t, s, "a")
	w := s.Watch()
	for i, is := range []bool{false, true, true, false, false} {
		w.Take()
		before := s.Get(name("a"))
		setGone(t, s, "a", is)
		told, want := len(w.Take()), 0
		if before.Gone != is {
			want = 1
		}
		if told != want || (s.Get(name("a")) != before) != (want == 1) {
			t.Errorf("step %d: told %d times, want %d", i, told, want)
		}
		if before.Gone && !is && before.Probeable() {
			t.Error("the snapshot from before was changed")
		}
	}
}
