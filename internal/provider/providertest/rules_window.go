package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func windowRules() []Rule {
	return []Rule{
		{"create-refuses-after-its-window", "Create refuses a record as old as the call timeout with ErrTransient and sends nothing.", func(s *suite) {
			req := s.request()
			ref := s.ref(req, 1)
			for _, age := range []time.Duration{s.env.Window.CallTimeout, s.total() + time.Hour} {
				ref.RequestedAt = s.env.Window.Clock.Now().Add(-age)
				s.expectClass("Create on an old record", s.p.Create(s.ctx, req, ref), provider.ErrTransient)
			}
			s.expectLeft(0, "after refused Creates")
		}},
		{"create-checks-its-window-before-sending", "A Create that was paused until its window had closed sends nothing.", func(s *suite) {
			s.need(s.env.HoldCreate != nil, "HoldCreate")
			s.need(s.env.Advance != nil, "Advance")
			req := s.request()
			ref := s.ref(req, 1)
			reached, release := s.env.HoldCreate()
			done := make(chan error, 1)
			go func() { done <- s.p.Create(s.ctx, req, ref) }()
			s.await(reached, "Create pausing")
			s.env.Advance(s.env.Window.CallTimeout)
			release()
			if err := <-done; err == nil {
				s.Errorf("a Create paused past its window succeeded")
			}
			s.expectLeft(0, "after a Create that came too late")
		}},
		{"get-says-provisioning-within-the-window", "While a Create on record may still take effect, Get says Provisioning and shows nothing.", func(s *suite) {
			ref := s.ref(s.request(), 1)
			margin := s.env.Window.Skew / 2
			if margin == 0 {
				margin = s.total() / 4
			}
			for _, age := range []time.Duration{0, s.total() - margin} {
				ref.RequestedAt = s.env.Window.Clock.Now().Add(-age)
				inst, err := s.p.Get(s.ctx, ref)
				if err != nil || inst.State != provider.StateProvisioning || inst.ID != ref.ID || inst.Identity != "" || inst.Marks != (provider.Marks{}) {
					s.Errorf("Get on a record %s old = %s, want Provisioning without identity and marks", age, describe(inst, err))
				}
			}
		}},
		{"get-says-notfound-after-the-window", "Once nothing on record can take effect any more, Get of an absent instance is ErrNotFound.", func(s *suite) {
			ref := s.old(s.ref(s.request(), 1))
			inst, err := s.p.Get(s.ctx, ref)
			if !errors.Is(err, provider.ErrNotFound) {
				s.Errorf("Get = %s, want ErrNotFound", describe(inst, err))
			}
		}},
		{"get-waits-for-a-late-call", "Get says Provisioning until a Create that is still on its way has arrived.", func(s *suite) {
			s.need(s.env.ArriveLate != nil, "ArriveLate")
			req := s.request()
			ref := s.ref(req, 1)
			s.env.ArriveLate(s.env.Window.CallTimeout / 2)
			s.expectClass("Create that is on its way", s.p.Create(s.ctx, req, ref), provider.ErrTransient)
			s.neverNotFound(ref)
			s.onlyOne(ref)
		}},
		{"get-waits-for-a-late-effect", "Get says Provisioning until an accepted creation is visible.", func(s *suite) {
			s.need(s.env.ShowLate != nil, "ShowLate")
			s.env.ShowLate(s.env.Window.Visibility)
			s.neverNotFound(s.create(s.request(), 1))
		}},
		{"get-takes-the-clock-first", "A Get that began within the window does not say ErrNotFound, however long its reading takes.", func(s *suite) {
			s.need(s.env.HoldGet != nil, "HoldGet")
			s.need(s.env.Advance != nil, "Advance")
			ref := s.ref(s.request(), 1)
			if inst, err := s.heldGet(ref, func() { s.env.Advance(s.total() + time.Second) }); err != nil {
				s.Errorf("Get = %s, want Provisioning", describe(inst, err))
			}
		}},
		{"get-reads-the-instance-last", "A creation that ends while Get is reading is not taken for one that left nothing.", func(s *suite) {
			s.need(s.env.HoldGet != nil, "HoldGet")
			s.need(s.env.ShowLate != nil, "ShowLate")
			s.need(s.env.Advance != nil, "Advance")
			s.env.ShowLate(s.env.Window.Visibility)
			ref := s.create(s.request(), 1)
			inst, err := s.heldGet(ref, func() { s.env.Advance(s.env.Window.Visibility + time.Second) })
			if err != nil {
				s.Errorf("Get = %s, want the instance or Provisioning", describe(inst, err))
			}
		}},
		{"get-foreign-waits-for-the-window", "Within the window a foreign instance is ErrConflict with reason AbsenceUnproven: our own may still appear.", func(s *suite) {
			_, ref, _ := s.foreign(s.request(), false)
			ref = s.fresh(ref)
			ref.Attempt++ // one that nobody ever sent
			inst, err := s.p.Get(s.ctx, ref)
			if !errors.Is(err, provider.ErrConflict) || provider.Reason(err) != provider.ReasonAbsenceUnproven {
				s.Errorf("Get within the window = %s, want ErrConflict with reason %s", describe(inst, err), provider.ReasonAbsenceUnproven)
			}
		}},
	}
}

// neverNotFound polls until the instance runs and fails on any error meanwhile.
func (s *suite) neverNotFound(ref provider.Ref) {
	s.Helper()
	s.poll("the instance running", func() string {
		inst, err := s.p.Get(s.ctx, ref)
		switch {
		case err != nil:
			s.Fatalf("Get meanwhile = %v", err)
		case inst.State != provider.StateRunning:
			return "it is " + string(inst.State)
		}
		return ""
	})
}

// heldGet runs a Get and meanwhile f while the Get pauses before it reads the instance.
func (s *suite) heldGet(ref provider.Ref, meanwhile func()) (inst *provider.Instance, err error) {
	s.Helper()
	reached, release := s.env.HoldGet()
	done := make(chan struct{})
	go func() {
		defer close(done)
		inst, err = s.p.Get(s.ctx, ref)
	}()
	s.await(reached, "Get pausing")
	meanwhile()
	release()
	s.await(done, "Get returning")
	return inst, err
}

// await fails unless c is closed within the limit.
func (s *suite) await(c <-chan struct{}, what string) {
	s.Helper()
	timer := time.NewTimer(s.env.Limit)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		s.Fatalf("%s did not come about within %s", what, s.env.Limit)
	}
}

var errTooLong = errors.New("the call did not return in time")

// within returns the answer of f, errTooLong where there is none within the limit.
func (s *suite) within(f func() error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.env.Limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errTooLong
	}
}
