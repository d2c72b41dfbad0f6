package providertest

import (
	"context"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkCompanyRules are about checks beside other calls.
func checkCompanyRules() []CheckRule {
	return []CheckRule{
		{"check-spares-a-create", "A Create that is under way comes to its normal end, whatever checks run into their time meanwhile.", func(s *checkSuite) {
			s.need(s.env.HoldSend != nil && s.env.Wait != nil, "HoldSend")
			s.spares("Create", s.env.HoldSend, func(ref provider.Ref, req provider.CreateRequest) error {
				return s.p.Create(s.ctx, req, ref)
			}, nil)
		}},
		{"check-spares-a-get", "A Get that is under way comes to its normal end, whatever checks run into their time meanwhile.", func(s *checkSuite) {
			s.need(s.env.HoldGet != nil && s.env.Wait != nil, "HoldGet")
			s.spares("Get", s.env.HoldGet, func(ref provider.Ref, _ provider.CreateRequest) error {
				_, err := s.p.Get(s.ctx, ref)
				return err
			}, func(ref provider.Ref, req provider.CreateRequest) {
				if err := s.p.Create(s.ctx, req, ref); err != nil {
					s.Fatalf("Create: %v", err)
				}
			})
		}},
		{"check-bears-company", "Checks side by side, and beside other calls, say what each says alone.", func(s *checkSuite) {
			c := s.checker()
			var wg sync.WaitGroup
			said := make([]answer, 16)
			for i := range said {
				wg.Go(func() { said[i] = s.ask(s.ctx, c, 3*s.env.Limit) })
			}
			if p, ok := c.(provider.Provider); ok {
				wg.Go(func() { _, _ = p.ListByTag(s.ctx) })
			}
			wg.Wait()
			for _, a := range said {
				if a.late || len(a.statuses) != len(s.with.Targets) || !all(a.statuses, provider.CheckReachable) {
					s.Errorf("side by side, one check says after %s: %s", a.took, lines(a.statuses))
				}
			}
		}},
	}
}

// spares holds a call, lets checks on the same provider time out, and expects the call to succeed once it may go on.
func (s *checkSuite) spares(what string, hold func() (<-chan struct{}, func()), call func(provider.Ref, provider.CreateRequest) error,
	before func(provider.Ref, provider.CreateRequest)) {
	s.Helper()
	s.need(s.with.Hang != nil, "Hang")
	c := s.checker()
	s.p = c.(provider.Provider) //nolint:forcetypeassert // it is what Env.Provider has made
	req := s.request()
	ref := s.ref(req, 1)
	if before != nil {
		before(ref, req)
	}
	reached, release := hold()
	done := make(chan error, 1)
	go func() { done <- call(ref, req) }()
	select {
	case <-reached:
	case err := <-done:
		s.Fatalf("the %s was not held: %v", what, err)
	case <-time.After(3 * s.env.Limit):
		s.Fatalf("the %s has not come to where it is held", what)
	}
	restore := s.hangAll()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i+1)*short/4)
			defer cancel()
			if a := s.ask(ctx, c, s.env.Limit); a.late || !all(a.statuses, provider.CheckTimeout) {
				s.Errorf("beside the %s, after %s: %s, want %s", what, a.took, lines(a.statuses), provider.CheckTimeout)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-done:
		s.Errorf("the %s ended while it was held: %v", what, err)
		done <- err
	default:
	}
	restore()
	release()
	select {
	case err := <-done:
		if err != nil {
			s.Errorf("the %s that was under way = %v", what, err)
			return
		}
	case <-time.After(3 * s.env.Limit):
		s.Fatalf("the %s does not end", what)
	}
	s.reach(ref, provider.StateRunning)
}
