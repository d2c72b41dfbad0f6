package fleet_test

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// wantClaim checks which of the Proxies a and b has lost its address.
func wantClaim(t *testing.T, s *fleet.Store, when string, aLost, bLost bool) {
	t.Helper()
	if a, b := s.Get(name("a")), s.Get(name("b")); a.AddressLost != aLost || b.AddressLost != bLost {
		t.Errorf("%s: a lost its address: %v, b: %v; want %v, %v", when, a.AddressLost, b.AddressLost, aLost, bLost)
	}
}

func TestAnAddressBelongsToWhoWasObservedLast(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a", at("x.test", epoch)))
	s.Apply(managed("b", at("x.test", epoch.Add(time.Second))))
	wantClaim(t, s, "b came later", true, false)
	s.Apply(managed("a", at("x.test", epoch.Add(time.Minute))))
	wantClaim(t, s, "a was observed again", false, true)
	s.SetVerdict(name("b"), fleet.Verdict{Subject: s.Get(name("b")).Subject(), Health: fleet.Healthy})
	if got := s.Get(name("b")).Withheld(); got != fleet.WithheldAddress {
		t.Errorf("a healthy verdict makes up for a lost address: %q", got)
	}
	s.Apply(managed("a", at("y.test", epoch.Add(time.Minute))))
	wantClaim(t, s, "a went away", false, false)
	if got := s.Get(name("b")).Withheld(); got != fleet.WithheldNot {
		t.Errorf("b is withheld as %q with nobody else at its address", got)
	}
}

func TestEqualClaimsDoNotDependOnTheOrderOfEvents(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		s := fleet.NewStore()
		for _, n := range order {
			s.Apply(managed(n, at("x.test", epoch)))
		}
		wantClaim(t, s, "equal times", false, true)
	}
}

// TestAnInstanceThatMovedClaimsItsNewAddress: Provisioned stayed True all the time, so that its transition says nothing of
// the move, and the holder before seems to have been observed later.
func TestAnInstanceThatMovedClaimsItsNewAddress(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a", at("x.test", epoch)))
	s.Apply(managed("b", at("y.test", epoch.Add(time.Hour))))
	s.Apply(managed("a", at("y.test", epoch)))
	wantClaim(t, s, "a moved to b's address", false, true)
	s.Apply(managed("a", at("y.test", epoch)))
	s.Apply(managed("b", at("y.test", epoch.Add(time.Hour))))
	wantClaim(t, s, "nothing changed", false, true)
	s.Apply(managed("b", at("y.test", epoch.Add(2*time.Hour))))
	wantClaim(t, s, "b was observed there again", true, false)
}

func TestPortsAndExternalProxiesDoNotCompete(t *testing.T) {
	s := fleet.NewStore()
	external := func(p *fleet.Proxy) { p.Mode, p.Provider, p.Attempt = v1alpha1.ModeExternal, "", 0 }
	s.Apply(managed("a", at("x.test", epoch)))
	s.Apply(managed("b", at("x.test", epoch), func(p *fleet.Proxy) { p.Endpoint.Port++ }))
	wantClaim(t, s, "another port", false, false)
	s.Apply(managed("b", at("x.test", epoch.Add(time.Second)), external))
	wantClaim(t, s, "an External one", false, false)
	// An informer may tell of a deletion and a creation under the same name as one change.
	s.Apply(managed("b", at("x.test", epoch.Add(time.Second))))
	wantClaim(t, s, "a Managed one", true, false)
	s.Apply(managed("b", at("x.test", epoch.Add(time.Second)), external, func(p *fleet.Proxy) { p.UID = "another" }))
	wantClaim(t, s, "replaced by an External one", false, false)
}

func TestALateDeletionSparesTheSuccessor(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a"))
	s.Apply(managed("a", func(p *fleet.Proxy) { p.UID = "successor" }))
	w := s.Watch()
	w.Take()
	s.Remove(name("a"), "uid-a")
	if s.Get(name("a")) == nil || len(w.Take()) != 0 {
		t.Error("the deletion of another UID had an effect")
	}
	s.Remove(name("a"), "successor")
	if s.Get(name("a")) != nil || len(w.Take()) != 1 {
		t.Error("the deletion had no effect, or nobody was told")
	}
}
