package providertest

import (
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func failureRules() []Rule {
	return []Rule{
		{"late-failure-is-classified", "A creation that fails after its acceptance is Failed with a classified error, or leaves proof of absence.", func(s *suite) {
			s.need(s.env.FailLate != nil, "FailLate")
			for _, class := range []error{provider.ErrQuotaExceeded, provider.ErrPermanent} {
				s.env.FailLate(class, false)
				if inst := s.failed(s.create(s.request(), 1)); inst != nil {
					var e *provider.Error
					if !errors.As(inst.Err, &e) || !errors.Is(inst.Err, class) {
						s.Errorf("Failed carries %v, want a *provider.Error of class %q", inst.Err, class)
					}
				}
			}
		}},
		{"late-failure-tells-what-is-left", "Failed says whether anything is left, and Delete removes that.", func(s *suite) {
			s.need(s.env.FailLate != nil, "FailLate")
			for _, leave := range []bool{false, true} {
				s.env.FailLate(provider.ErrQuotaExceeded, leave)
				ref := s.create(s.request(), 1)
				inst := s.failed(ref)
				left := len(s.leftovers()) > 0
				if left != (inst != nil && inst.Left) {
					s.Errorf("something is left: %v; Get says %s", left, describe(inst, nil))
				}
				if err := s.p.Delete(s.ctx, ref); err != nil {
					s.Errorf("Delete of a failed creation = %v", err)
				}
				s.poll("nothing being left", func() string {
					if left := s.leftovers(); len(left) > 0 {
						return left[0]
					}
					return ""
				})
			}
		}},
		{"late-failure-frees-the-next-attempt", "After a failed creation that left nothing the next attempt can be created.", func(s *suite) {
			s.need(s.env.FailLate != nil, "FailLate")
			s.env.FailLate(provider.ErrQuotaExceeded, false)
			req := s.request()
			s.failed(s.create(req, 1))
			s.running(req, 2)
		}},
		{"quota-is-quota-exceeded", "A full backend is ErrQuotaExceeded, leaves nothing, and the same attempt works once there is room.", func(s *suite) {
			s.need(s.env.ExhaustQuota != nil, "ExhaustQuota")
			req := s.request()
			ref := s.ref(req, 1)
			n := len(s.leftovers())
			restore := s.env.ExhaustQuota()
			err := s.p.Create(s.ctx, req, ref)
			if err == nil {
				if inst := s.failed(ref); inst != nil {
					err = inst.Err
				}
			}
			s.expectClass("Create on a full backend", err, provider.ErrQuotaExceeded)
			restore()
			s.expectLeft(n, "after a refused Create")
			if err := s.p.Create(s.ctx, req, s.fresh(ref)); err != nil {
				s.Errorf("Create once there is room = %v", err)
			}
			s.reach(ref, provider.StateRunning)
		}},
		{"throttling-is-transient", "Throttling is ErrTransient with the delay that the backend asked for.", func(s *suite) {
			s.need(s.env.Throttle != nil, "Throttle")
			const delay = 7e9
			ref, _ := s.running(s.request(), 1)
			req := s.request()
			other := s.ref(req, 1)
			restore := s.env.Throttle(delay)
			defer restore()
			for op, err := range s.eachCall(req, other, ref) {
				s.expectClass(op+" while throttled", err, provider.ErrTransient)
				if got := provider.RetryAfter(err); got != delay {
					s.Errorf("%s while throttled asks for %s, want 7s", op, got)
				}
			}
		}},
		{"refused-operator-is-denied", "A backend that refuses the operator's credentials is ErrDenied, and nothing counts as absent.", func(s *suite) {
			s.need(s.env.Deny != nil, "Deny")
			ref, _ := s.running(s.request(), 1)
			req := s.request()
			other := s.ref(req, 1)
			restore := s.env.Deny()
			defer restore()
			for op, err := range s.eachCall(req, other, s.old(ref)) {
				s.expectClass(op+" while refused", err, provider.ErrDenied)
			}
		}},
	}
}

// failed polls until Get shows Failed and returns it, or nil where it proves absence instead.
func (s *suite) failed(ref provider.Ref) (failed *provider.Instance) {
	s.Helper()
	s.poll("the failure showing", func() string {
		inst, err := s.p.Get(s.ctx, ref)
		switch {
		case errors.Is(err, provider.ErrNotFound):
			failed = nil
			return ""
		case err != nil:
			return "Get: " + err.Error()
		case inst.State == provider.StateFailed:
			failed = inst
			return ""
		}
		return "it is " + string(inst.State)
	})
	return failed
}

// eachCall returns what the calls that reach the backend answer: Create of req, the others about ref.
func (s *suite) eachCall(req provider.CreateRequest, forCreate, ref provider.Ref) map[string]error {
	errs := map[string]error{"create": s.p.Create(s.ctx, req, forCreate), "delete": s.p.Delete(s.ctx, ref)}
	_, errs["get"] = s.p.Get(s.ctx, ref)
	_, errs["list"] = s.p.ListByTag(s.ctx)
	return errs
}
