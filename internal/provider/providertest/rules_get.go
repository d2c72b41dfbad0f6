package providertest

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func getRules() []Rule {
	return []Rule{
		{"get-running-has-an-address", "Running comes with a valid IP and port, and no other ID than the one asked for.", func(s *suite) {
			req := s.request()
			_, inst := s.running(req, 1)
			if addr, err := netip.ParseAddr(inst.IP); err != nil || addr.IsUnspecified() || addr.IsMulticast() {
				s.Errorf("IP %q is no address to reach the proxy at", inst.IP)
			}
			if inst.Port < 1 || inst.Port > 65535 {
				s.Errorf("port %d", inst.Port)
			}
			if inst.ExitAddress != "" {
				if _, err := netip.ParseAddr(inst.ExitAddress); err != nil {
					s.Errorf("exit address %q is no IP", inst.ExitAddress)
				}
			}
			if id, _ := s.p.Plan(s.ctx, req); inst.ID != id {
				s.Errorf("the instance calls itself %q, its ID is %q", inst.ID, id)
			}
		}},
		{"get-shows-what-is-being-deleted", "Get keeps showing the instance, as Deleting, until nothing of it is left.", func(s *suite) {
			ref, _ := s.running(s.request(), 1)
			if err := s.p.Delete(s.ctx, ref); err != nil {
				s.Fatalf("Delete = %v", err)
			}
			s.poll("the instance gone", func() string {
				inst, err := s.p.Get(s.ctx, s.old(ref))
				if errors.Is(err, provider.ErrNotFound) {
					// The probe comes second: what it finds was there when Get denied it.
					s.expectLeft(0, "after ErrNotFound")
					return ""
				}
				if err != nil {
					return "Get: " + err.Error()
				}
				if inst.State != provider.StateDeleting {
					s.Errorf("while being deleted it is %s", inst.State)
				}
				return "it is still there"
			})
		}},
		{"get-shows-another-attempt", "An older or newer attempt under the ID is shown, with its own marks.", func(s *suite) {
			ref, _ := s.running(s.request(), 2)
			for _, asked := range []int64{1, 3} {
				other := s.old(ref)
				other.Attempt = asked
				inst, err := s.p.Get(s.ctx, other)
				if err != nil || inst.Marks.Attempt != 2 || inst.Identity == "" {
					s.Errorf("Get of attempt %d while 2 stands there = %s", asked, describe(inst, err))
				}
			}
		}},
		{"get-scope-mismatch", "Get of a malformed ID or one outside the scope is ErrPermanent with reason ScopeMismatch.", func(s *suite) {
			s.scopeMismatch(func(ref provider.Ref) error {
				_, err := s.p.Get(s.ctx, ref)
				return err
			})
		}},
		{"get-foreign-is-conflict", "After the window, Get of another installation's or cluster's instance is ErrConflict, as proof of absence.", func(s *suite) {
			for _, otherCluster := range []bool{false, true} {
				_, ref, _ := s.foreign(s.request(), otherCluster)
				s.expectForeign(s.old(ref))
			}
		}},
		{"get-other-uid-is-conflict", "Get of an instance that belongs to another Proxy is ErrConflict.", func(s *suite) {
			ref, _ := s.running(s.request(), 1)
			ref.UID = s.env.Request().UID
			s.expectForeign(s.old(ref))
		}},
		{"get-unmarked-is-conflict", "Get of something without marks is ErrConflict.", func(s *suite) {
			s.need(s.env.Place != nil, "Place")
			ref := s.ref(s.request(), 1)
			s.env.Place(ref.ID)
			s.expectForeign(s.old(ref))
		}},
		{"get-unreadable-is-not-absent", "An unreadable scope is an error other than ErrNotFound and ErrConflict.", func(s *suite) {
			s.need(s.env.BreakScope != nil, "BreakScope")
			absent := s.old(s.ref(s.request(), 1))
			ref, _ := s.running(s.request(), 1)
			restore := s.env.BreakScope(ref.ID)
			defer restore()
			for _, ref := range []provider.Ref{s.old(ref), absent} {
				inst, err := s.p.Get(s.ctx, ref)
				if class := provider.Class(err); class == nil || class == provider.ErrNotFound || class == provider.ErrConflict {
					s.Errorf("Get in an unreadable scope = %s", describe(inst, err))
				}
			}
		}},
		{"get-stopped-still-exists", "A stopped or terminated instance still exists.", func(s *suite) {
			s.need(s.env.Stop != nil || s.env.Terminate != nil, "Stop and Terminate")
			for _, end := range []func(string){s.env.Stop, s.env.Terminate} {
				if end != nil {
					ref, _ := s.running(s.request(), 1)
					end(ref.ID)
					s.reach(s.old(ref), provider.StateStopped, provider.StateTerminated)
				}
			}
		}},
		{"get-unrecognised-is-unknown", "A state that the provider does not know is Unknown, never one that leads to deletion.", func(s *suite) {
			s.need(s.env.Confuse != nil, "Confuse")
			ref, _ := s.running(s.request(), 1)
			s.env.Confuse(ref.ID)
			s.reach(s.old(ref), provider.StateUnknown)
		}},
		{"get-shows-what-parts-are-left", "An instance exists, for Get and for ListByTag, while any part of it does; Delete removes the rest.", func(s *suite) {
			s.need(s.env.LoseMain != nil, "LoseMain")
			ref, _ := s.running(s.request(), 1)
			s.env.LoseMain(ref.ID)
			if inst, err := s.p.Get(s.ctx, s.old(ref)); err != nil || inst.State == provider.StateRunning {
				s.Errorf("Get of an instance in parts = %s", describe(inst, err))
			}
			s.list("the rest in the list", func(listed map[string]provider.Instance) string {
				if _, ok := listed[ref.ID]; !ok {
					return "it is not listed"
				}
				return ""
			})
			if err := s.p.Delete(s.ctx, ref); err != nil {
				s.Errorf("Delete of the rest = %v", err)
			}
			s.gone(ref)
			s.expectLeft(0, "after the rest was deleted")
		}},
		{"get-reads-identity-back", "Identity is the backend's: the same after a restart, another one for the next instance.", func(s *suite) {
			req := s.request()
			ref, first := s.running(req, 1)
			if first.Identity == "" {
				s.Fatalf("a running instance has no identity")
			}
			if again, err := s.restart().Get(s.ctx, ref); err != nil || again.Identity != first.Identity {
				s.Errorf("after a restart: %s, before identity %s", describe(again, err), first.Identity)
			}
			s.deleteAndWait(ref)
			if _, second := s.running(req, 2); second.Identity == first.Identity {
				s.Errorf("two instances had the identity %s", first.Identity)
			}
		}},
		{"get-reads-creation-time-back", "CreatedAt is set, plausible and the same in every answer, also after a restart.", func(s *suite) {
			before := s.env.Window.Clock.Now()
			ref, inst := s.running(s.request(), 1)
			slack := s.env.Window.Skew + 2*1e9
			if c := inst.CreatedAt; c.Before(before.Add(-slack)) || c.After(s.env.Window.Clock.Now().Add(slack)) {
				s.Errorf("created at %s, but it was created after %s", c, before)
			}
			if err := s.env.Wait(s.ctx); err != nil {
				s.Fatalf("waiting: %v", err)
			}
			if again, err := s.restart().Get(s.ctx, ref); err != nil || !again.CreatedAt.Equal(inst.CreatedAt) {
				s.Errorf("after a restart: %s, created at differs from %s", describe(again, err), inst.CreatedAt)
			}
		}},
	}
}

// expectForeign checks that Get says ErrConflict as a proof of our own's absence.
func (s *suite) expectForeign(ref provider.Ref) {
	s.Helper()
	inst, err := s.p.Get(s.ctx, ref)
	if !errors.Is(err, provider.ErrConflict) || provider.Reason(err) == provider.ReasonAbsenceUnproven {
		s.Errorf("Get after the window = %s, want ErrConflict as proof", describe(inst, err))
	}
}

// scopeMismatch asks for IDs that are not the provider's to judge.
func (s *suite) scopeMismatch(call func(provider.Ref) error) {
	s.Helper()
	ref := s.old(s.ref(s.request(), 1))
	ids := append([]string{"", "nonsense", "/", ref.ID + "/x", "/" + ref.ID, ref.ID + " ", "../" + ref.ID}, s.env.MalformedIDs...)
	for _, id := range append(ids, s.env.ForeignIDs...) {
		bad := ref
		bad.ID = id
		err := call(bad)
		if !errors.Is(err, provider.ErrPermanent) || provider.Reason(err) != provider.ReasonScopeMismatch {
			s.Errorf("for ID %q: %v, want ErrPermanent with reason %s", id, err, provider.ReasonScopeMismatch)
		}
	}
}

// describe puts an answer of Get into words.
func describe(inst *provider.Instance, err error) string {
	if err != nil {
		return err.Error()
	}
	if inst == nil {
		return "nil without an error"
	}
	return fmt.Sprintf("%s (identity %q, attempt %d, created %s, %s)", inst.State, inst.Identity, inst.Marks.Attempt, inst.CreatedAt, inst.Message)
}
