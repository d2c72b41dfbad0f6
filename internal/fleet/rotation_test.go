package fleet_test

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// A working proxy goes on under the credentials that it works with until Promote, and is never offered with others than
// its verdict speaks of.
func TestRotation(t *testing.T) {
	s := fleet.NewStore()
	says := func(step, now, next string) {
		t.Helper()
		p := s.Get(name("a"))
		if p.Credentials.Revision != now || (p.Next == nil) != (next == "") || (p.Next != nil && p.Next.Revision != next) {
			t.Errorf("%s: %+v", step, p)
		}
		if p.Withheld() != fleet.WithheldNot || p.Verdict.Subject.CredentialRevision != now {
			t.Errorf("%s: withheld as %q on %+v", step, p.Withheld(), p.Verdict)
		}
	}
	s.Apply(managed("a", withRevision("r1")))
	s.SetVerdict(name("a"), fleet.Verdict{Subject: s.Get(name("a")).Subject(), Health: fleet.Healthy})
	s.Apply(managed("a", withRevision("r2")))
	says("rotated", "r1", "r2")
	s.Apply(managed("a", withRevision("r2")))
	says("again", "r1", "r2")
	verdict := s.Get(name("a")).Verdict
	if s.Promote(name("a"), "r2", verdict) {
		t.Error("promoted on a verdict about the old ones")
	}
	verdict.Subject.CredentialRevision = "r2"
	if s.Promote(name("a"), "r3", verdict) || s.Promote(name("b"), "r2", verdict) {
		t.Error("promoted what is not there")
	}
	says("refused", "r1", "r2")
	if !s.Promote(name("a"), "r2", verdict) {
		t.Error("not promoted")
	}
	says("promoted", "r2", "")
	if s.Promote(name("a"), "r2", verdict) {
		t.Error("promoted twice")
	}
	s.Apply(managed("a", withRevision("r3")))
	s.Apply(managed("a", withRevision("r2")))
	says("taken back", "r2", "")
	for what, change := range map[string]func(*fleet.Proxy){
		"UID":     func(p *fleet.Proxy) { p.UID = "u2" },
		"attempt": func(p *fleet.Proxy) { p.Attempt++ },
		"host":    func(p *fleet.Proxy) { p.Endpoint.Host = "b.test" },
	} {
		other := fleet.NewStore()
		other.Apply(managed("a", withRevision("r1")))
		other.SetVerdict(name("a"), fleet.Verdict{Subject: other.Get(name("a")).Subject(), Health: fleet.Healthy})
		other.Apply(managed("a", withRevision("r2"), change))
		if got := other.Get(name("a")); got.Next != nil || got.Credentials.Revision != "r2" {
			t.Errorf("with another %s the old credentials go on: %+v", what, got)
		}
	}
	s.Apply(managed("a", withRevision("r3")))
	p := managed("a")
	p.CredentialsMissing = true
	s.Apply(p)
	if got := s.Get(name("a")); got.Withheld() != fleet.WithheldCredentials || got.Credentials != nil || got.Next != nil {
		t.Errorf("without a Secret: %+v", got)
	}
}
