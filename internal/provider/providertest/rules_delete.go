package providertest

import (
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func deleteRules() []Rule {
	return []Rule{
		{"delete-is-idempotent", "Delete of what is absent succeeds, never created or removed before.", func(s *suite) {
			ref := s.ref(s.request(), 1)
			for _, r := range []provider.Ref{ref, s.old(ref)} {
				if err := s.p.Delete(s.ctx, r); err != nil {
					s.Errorf("Delete of what was never created = %v", err)
				}
			}
			ref, _ = s.running(s.request(), 1)
			s.deleteAndWait(ref)
			if err := s.restart().Delete(s.ctx, s.old(ref)); err != nil {
				s.Errorf("Delete of what is gone = %v", err)
			}
		}},
		{"delete-may-be-repeated", "Delete of what is being deleted succeeds.", func(s *suite) {
			ref, _ := s.running(s.request(), 1)
			for i := range 3 {
				if err := s.p.Delete(s.ctx, ref); err != nil {
					s.Errorf("Delete number %d = %v", i+1, err)
				}
			}
			s.gone(ref)
		}},
		{"delete-removes-everything", "Delete removes everything that Create made.", func(s *suite) {
			ref, _ := s.running(s.request(), 1)
			if len(s.leftovers()) == 0 {
				s.Fatalf("the leak probe does not see a running instance")
			}
			s.deleteAndWait(ref)
			s.expectLeft(0, "after Delete and ErrNotFound")
		}},
		{"delete-works-before-running", "An instance that never ran can be deleted.", func(s *suite) {
			s.need(s.env.HoldBoot != nil, "HoldBoot")
			release := s.env.HoldBoot()
			defer release()
			ref := s.create(s.request(), 1)
			s.poll("the instance being seen", func() string {
				if inst, err := s.p.Get(s.ctx, ref); err != nil || inst.Identity == "" {
					return describe(inst, err)
				}
				return ""
			})
			s.deleteAndWait(ref)
			s.expectLeft(0, "after Delete and ErrNotFound")
		}},
		{"delete-spares-another-attempt", "Where another attempt holds the ID, Delete succeeds and touches nothing.", func(s *suite) {
			ref, before := s.running(s.request(), 2)
			for _, attempt := range []int64{1, 3} {
				other := ref
				other.Attempt = attempt
				if err := s.p.Delete(s.ctx, other); err != nil {
					s.Errorf("Delete of attempt %d while 2 stands there = %v", attempt, err)
				}
				s.expectUntouched(s.p, ref, before, "a Delete of another attempt")
			}
		}},
		{"delete-spares-another-identity", "Where the attempt stands under another identity than named, Delete succeeds and touches nothing.", func(s *suite) {
			ref, before := s.running(s.request(), 1)
			other := ref
			other.Identity = before.Identity + "0"
			if err := s.p.Delete(s.ctx, other); err != nil {
				s.Errorf("Delete of another identity = %v", err)
			}
			s.expectUntouched(s.p, ref, before, "a Delete of another identity")
			ref.Identity = before.Identity
			s.deleteAndWait(ref)
		}},
		{"delete-is-bound-to-what-it-saw", "A Delete that the next attempt overtakes between its look and its effect spares that attempt.", func(s *suite) {
			s.need(s.env.HoldDelete != nil, "HoldDelete")
			s.need(s.env.Vanish != nil, "Vanish")
			req := s.request()
			ref, _ := s.running(req, 1)
			reached, release := s.env.HoldDelete()
			done := make(chan error, 1)
			go func() { done <- s.p.Delete(s.ctx, ref) }()
			s.await(reached, "Delete pausing")
			s.env.Vanish(ref.ID)
			s.gone(ref)
			next, before := s.running(req, 2)
			release()
			if err := <-done; err != nil {
				s.Errorf("the Delete that was overtaken = %v", err)
			}
			s.expectUntouched(s.p, next, before, "a Delete that was overtaken")
		}},
		{"delete-spares-foreign", "Delete leaves another installation's or cluster's instance alone; it succeeds or says ErrConflict.", func(s *suite) {
			for _, otherCluster := range []bool{false, true} {
				foreign, ref, before := s.foreign(s.request(), otherCluster)
				s.deleteForeign(s.old(ref))
				s.expectUntouched(foreign, ref, before, "a Delete by a stranger")
			}
		}},
		{"delete-spares-another-proxy", "Delete leaves an instance alone that belongs to another Proxy.", func(s *suite) {
			ref, before := s.running(s.request(), 1)
			other := s.old(ref)
			other.UID = s.env.Request().UID
			s.deleteForeign(other)
			s.expectUntouched(s.p, ref, before, "a Delete for another Proxy")
		}},
		{"delete-spares-unmarked", "Delete leaves something without marks alone.", func(s *suite) {
			s.need(s.env.Place != nil, "Place")
			ref := s.ref(s.request(), 1)
			untouched := s.env.Place(ref.ID)
			s.deleteForeign(s.old(ref))
			for range 3 {
				if err := s.env.Wait(s.ctx); err != nil {
					s.Fatalf("waiting: %v", err)
				}
			}
			if !untouched() {
				s.Errorf("what stood there was changed")
			}
		}},
		{"delete-scope-mismatch", "Delete of a malformed ID or one outside the scope is ErrPermanent with reason ScopeMismatch.", func(s *suite) {
			s.scopeMismatch(func(ref provider.Ref) error { return s.p.Delete(s.ctx, ref) })
		}},
		{"delete-fails-in-an-unreadable-scope", "Delete in an unreadable scope is an error, not success.", func(s *suite) {
			s.need(s.env.BreakScope != nil, "BreakScope")
			ref, _ := s.running(s.request(), 1)
			restore := s.env.BreakScope(ref.ID)
			err := s.p.Delete(s.ctx, ref)
			if class := provider.Class(err); class == nil || class == provider.ErrNotFound || class == provider.ErrConflict {
				s.Errorf("Delete = %v", err)
			}
			restore()
			s.deleteAndWait(ref)
		}},
		{"next-attempt-follows-notfound", "Once an attempt is proven absent, the next one can be created under the same ID.", func(s *suite) {
			req := s.request()
			ref, _ := s.running(req, 1)
			s.deleteAndWait(ref)
			if _, inst := s.running(req, 2); inst.Marks.Attempt != 2 {
				s.Errorf("the instance is of attempt %d", inst.Marks.Attempt)
			}
		}},
		{"vanished-is-notfound", "An instance that was removed behind the operator's back is ErrNotFound after the window.", func(s *suite) {
			s.need(s.env.Vanish != nil, "Vanish")
			ref, _ := s.running(s.request(), 1)
			s.env.Vanish(ref.ID)
			s.gone(ref)
			if err := s.p.Delete(s.ctx, s.old(ref)); err != nil {
				s.Errorf("Delete = %v", err)
			}
		}},
	}
}

// deleteAndWait deletes and polls until absence is proven.
func (s *suite) deleteAndWait(ref provider.Ref) {
	s.Helper()
	if err := s.p.Delete(s.ctx, ref); err != nil {
		s.Fatalf("Delete = %v", err)
	}
	s.gone(ref)
}

// deleteForeign deletes what is somebody else's.
func (s *suite) deleteForeign(ref provider.Ref) {
	s.Helper()
	if err := s.p.Delete(s.ctx, ref); err != nil && !errors.Is(err, provider.ErrConflict) {
		s.Errorf("Delete where a stranger stands = %v, want nil or ErrConflict", err)
	}
}
