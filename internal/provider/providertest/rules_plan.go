package providertest

import (
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func planRules() []Rule {
	return []Rule{
		{"plan-has-no-side-effect", "Plan leaves nothing on the backend.", func(s *suite) {
			s.ref(s.request(), 1)
			s.expectLeft(0, "after Plan")
		}},
		{"plan-is-deterministic", "Plan gives a request the same ID again, also after a restart and with the instance there.", func(s *suite) {
			req := s.request()
			first := s.ref(req, 1)
			check := func(p provider.Provider, when string) {
				if id, err := p.Plan(s.ctx, req); err != nil || id != first.ID {
					s.Errorf("%s Plan = %q, %v, before it was %q", when, id, err, first.ID)
				}
			}
			check(s.p, "the second time")
			check(s.restart(), "after a restart")
			s.running(req, 1)
			check(s.p, "with the instance running")
		}},
		{"plan-gives-each-proxy-its-own-id", "Two Proxies never share an ID.", func(s *suite) {
			if a, b := s.ref(s.request(), 1), s.ref(s.request(), 1); a.ID == b.ID {
				s.Errorf("two UIDs are both planned as %q", a.ID)
			}
		}},
		{"plan-id-names-its-scope", "A planned ID names its whole scope, and the provider that planned it owns it.", func(s *suite) {
			ref := s.ref(s.request(), 1)
			if !strings.Contains(ref.ID, "/") {
				s.Errorf("the ID %q names no scope", ref.ID)
			}
			if _, err := s.p.Get(s.ctx, ref); err != nil {
				s.Errorf("Get of a planned ID that is waiting for its Create = %v", err)
			}
			if err := s.p.Delete(s.ctx, ref); err != nil {
				s.Errorf("Delete of a planned ID that was never created = %v", err)
			}
		}},
		{"plan-id-ends-in-the-name", "The last element of an ID is the request's name.", func(s *suite) {
			req := s.request()
			if ref := s.ref(req, 1); !provider.NamedFor(ref.ID, req.UID) {
				s.Errorf("the name of the request is %q, the ID planned for it %q", req.Name, ref.ID)
			}
		}},
		{"plan-names-the-field", "Plan refuses what can never be satisfied with ErrPermanent, naming field and value.", func(s *suite) {
			s.need(len(s.env.Invalid) > 0, "invalid requests")
			for _, bad := range s.env.Invalid {
				_, err := s.p.Plan(s.ctx, bad.Request)
				s.expectClass("Plan with a bad "+bad.Field, err, provider.ErrPermanent)
				if err != nil && (!strings.Contains(err.Error(), bad.Field) || !strings.Contains(err.Error(), bad.Value)) {
					s.Errorf("the message does not name field %q and value %q: %v", bad.Field, bad.Value, err)
				}
			}
		}},
		{"create-refuses-what-plan-refuses", "Create refuses such a request before it makes anything.", func(s *suite) {
			s.need(len(s.env.Invalid) > 0, "invalid requests")
			for _, bad := range s.env.Invalid {
				ref := s.ref(s.request(), 1)
				ref.UID = bad.Request.UID
				s.expectClass("Create with a bad "+bad.Field, s.p.Create(s.ctx, bad.Request, ref), provider.ErrPermanent)
			}
			s.expectLeft(0, "after refused Creates")
		}},
	}
}
