package providertest

import (
	"errors"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func createRules() []Rule {
	return []Rule{
		{"create-returns-once-accepted", "Create does not wait for the instance to run.", func(s *suite) {
			s.need(s.env.HoldBoot != nil, "HoldBoot")
			release := s.env.HoldBoot()
			req := s.request()
			ref := s.ref(req, 1)
			err := s.within(func() error { return s.p.Create(s.ctx, req, ref) })
			if err != nil {
				s.Errorf("Create of an instance that does not boot yet = %v", err)
			}
			if inst, err := s.p.Get(s.ctx, ref); err != nil || inst.State != provider.StateProvisioning {
				s.Errorf("Get meanwhile = %v, want Provisioning", describe(inst, err))
			}
			release()
			s.reach(ref, provider.StateRunning)
		}},
		{"create-is-idempotent", "Create repeated for the same attempt succeeds and makes no second instance.", func(s *suite) {
			req := s.request()
			ref := s.create(req, 1)
			if err := s.p.Create(s.ctx, req, s.fresh(ref)); err != nil {
				s.Errorf("Create again at once = %v", err)
			}
			before := s.reach(ref, provider.StateRunning)
			n := len(s.leftovers())
			if err := s.restart().Create(s.ctx, req, s.fresh(ref)); err != nil {
				s.Errorf("Create again while it runs, after a restart = %v", err)
			}
			s.expectUntouched(s.p, ref, before, "Create again")
			s.expectLeft(n, "after Create again")
			s.onlyOne(ref)
		}},
		{"create-concurrently-makes-one", "Creates of one attempt at the same time make one instance.", func(s *suite) {
			req := s.request()
			ref := s.ref(req, 1)
			errs := make([]error, 8)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { errs[i] = s.p.Create(s.ctx, req, ref) })
			}
			wg.Wait()
			succeeded := 0
			for _, err := range errs {
				if err == nil {
					succeeded++
				} else if provider.Class(err) != provider.ErrTransient {
					s.Errorf("one of the Creates = %v, want success or ErrTransient", err)
				}
			}
			if succeeded == 0 {
				s.Errorf("none of the Creates succeeded: %v", errs[0])
			}
			s.reach(ref, provider.StateRunning)
			s.onlyOne(ref)
		}},
		{"create-recovers-a-lost-answer", "Create repeated after its answer was lost succeeds on the instance it made.", func(s *suite) {
			s.need(s.env.LoseAnswer != nil, "LoseAnswer")
			req := s.request()
			ref := s.ref(req, 1)
			s.env.LoseAnswer()
			s.expectClass("Create whose answer is lost", s.p.Create(s.ctx, req, ref), provider.ErrTransient)
			if err := s.restart().Create(s.ctx, req, s.fresh(ref)); err != nil {
				s.Errorf("Create again = %v", err)
			}
			s.reach(ref, provider.StateRunning)
			s.onlyOne(ref)
		}},
		{"create-refuses-another-id", "Create refuses with ErrPermanent when the request is not planned as the recorded ID.", func(s *suite) {
			req, other := s.request(), s.request()
			ref := s.ref(req, 1)
			ref.ID = s.ref(other, 1).ID
			s.expectClass("Create under another ID", s.p.Create(s.ctx, req, ref), provider.ErrPermanent)
			s.expectLeft(0, "after a refused Create")
		}},
		{"create-refuses-beside-an-older-attempt", "Create of a newer attempt fails with ErrTransient while an older one holds the ID.", func(s *suite) {
			s.besideAttempt(1, 2)
		}},
		{"create-refuses-beside-a-newer-attempt", "Create of an older attempt fails with ErrTransient while a newer one holds the ID.", func(s *suite) {
			s.besideAttempt(2, 1)
		}},
		{"create-judges-who-was-faster", "A Create that another attempt overtakes between its look and its sending does not succeed.", func(s *suite) {
			s.need(s.env.HoldSend != nil, "HoldSend")
			req := s.request()
			ref := s.ref(req, 1)
			reached, release := s.env.HoldSend()
			done := make(chan error, 1)
			go func() { done <- s.p.Create(s.ctx, req, ref) }()
			s.await(reached, "Create pausing")
			newer, before := s.running(req, 2)
			n := len(s.leftovers())
			release()
			s.expectClass("the Create that was overtaken", <-done, provider.ErrTransient)
			s.expectUntouched(s.p, newer, before, "a Create that was overtaken")
			s.expectLeft(n, "after a Create that was overtaken")
		}},
		{"create-refuses-foreign", "Create fails with ErrConflict on another installation's or cluster's instance and leaves it alone.", func(s *suite) {
			for _, otherCluster := range []bool{false, true} {
				req := s.request()
				foreign, ref, before := s.foreign(req, otherCluster)
				s.expectClass("Create where a stranger stands", s.p.Create(s.ctx, req, s.fresh(ref)), provider.ErrConflict)
				s.expectUntouched(foreign, ref, before, "a refused Create")
			}
		}},
		{"create-refuses-unmarked", "Create fails with ErrConflict on something without marks and leaves it alone.", func(s *suite) {
			s.need(s.env.Place != nil, "Place")
			req := s.request()
			ref := s.ref(req, 1)
			untouched := s.env.Place(ref.ID)
			s.expectClass("Create where something unmarked stands", s.p.Create(s.ctx, req, ref), provider.ErrConflict)
			if !untouched() {
				s.Errorf("what stood there was changed")
			}
		}},
		{"create-never-says-notfound", "Create never fails with ErrNotFound.", func(s *suite) {
			req := s.request()
			ref := s.ref(req, 1)
			check := func(when string, err error) {
				if errors.Is(err, provider.ErrNotFound) {
					s.Errorf("Create %s = %v", when, err)
				}
			}
			bad := ref
			bad.ID = "nonsense"
			check("under a malformed ID", s.p.Create(s.ctx, req, bad))
			for _, id := range s.env.ForeignIDs {
				bad.ID = id
				check("under an ID outside the scope", s.p.Create(s.ctx, req, bad))
			}
			if s.env.BreakScope != nil {
				restore := s.env.BreakScope(ref.ID)
				check("in an unreadable scope", s.p.Create(s.ctx, req, s.fresh(ref)))
				restore()
			}
			check("on an empty place", s.p.Create(s.ctx, req, s.fresh(ref)))
		}},
		{"create-sets-all-marks", "The instance carries every mark of the request, as Get and ListByTag show them.", func(s *suite) {
			req := s.request()
			ref, inst := s.running(req, 3)
			want := s.env.Owner.MarksFor(req, ref)
			if inst.Marks != want {
				s.Errorf("Get shows marks %+v, want %+v", inst.Marks, want)
			}
			s.list("the instance in the list", func(listed map[string]provider.Instance) string {
				if got, ok := listed[ref.ID]; !ok {
					return "it is not listed"
				} else if got.Marks != want {
					s.Fatalf("ListByTag shows marks %+v, want %+v", got.Marks, want)
				}
				return ""
			})
		}},
		{"create-marks-from-the-start", "At no moment does an instance exist without the marks by which a restarted operator finds it.", func(s *suite) {
			req := s.request()
			ref := s.create(req, 1)
			want := s.env.Owner.MarksFor(req, ref)
			s.poll("the instance running", func() string {
				inst, err := s.restart().Get(s.ctx, ref)
				if err != nil {
					s.Fatalf("Get of an instance being created = %v", err)
				}
				if inst.Identity != "" && inst.Marks != want {
					s.Fatalf("it is shown with marks %+v, want %+v", inst.Marks, want)
				}
				listing, err := s.restart().ListByTag(s.ctx)
				if err != nil {
					s.Fatalf("ListByTag = %v", err)
				}
				if listed, ok := byID(listing)[ref.ID]; ok && listed.Marks != want {
					s.Fatalf("it is listed with marks %+v, want %+v", listed.Marks, want)
				}
				if inst.State != provider.StateRunning {
					return "it is " + string(inst.State)
				}
				return ""
			})
		}},
	}
}

// besideAttempt creates one attempt where another stands.
func (s *suite) besideAttempt(standing, sent int64) {
	s.Helper()
	req := s.request()
	ref, before := s.running(req, standing)
	n := len(s.leftovers())
	late := s.fresh(ref)
	late.Attempt = sent
	s.expectClass("Create beside another attempt", s.p.Create(s.ctx, req, late), provider.ErrTransient)
	s.expectUntouched(s.p, ref, before, "a refused Create")
	s.expectLeft(n, "after a refused Create")
}

// foreign lets a stranger run an instance where req is planned.
func (s *suite) foreign(req provider.CreateRequest, otherCluster bool) (provider.Provider, provider.Ref, *provider.Instance) {
	s.Helper()
	ref := s.ref(req, 1)
	mine := s.p
	defer func() { s.p = mine }()
	s.p = s.stranger(otherCluster)
	if theirs := s.ref(req, 1); theirs.ID != ref.ID {
		s.Skipf("another installation plans %q, this one %q: they cannot meet", theirs.ID, ref.ID)
	}
	stranger := s.p
	ref, inst := s.running(req, 1)
	return stranger, ref, inst
}

// onlyOne checks that ref's is the only instance.
func (s *suite) onlyOne(ref provider.Ref) {
	s.Helper()
	s.list("exactly one instance in the list", func(listed map[string]provider.Instance) string {
		if _, ok := listed[ref.ID]; !ok {
			return "it is not listed"
		}
		if len(listed) != 1 {
			s.Fatalf("%d instances are listed", len(listed))
		}
		return ""
	})
}
