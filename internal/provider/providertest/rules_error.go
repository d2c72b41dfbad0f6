package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func errorRules() []Rule {
	return []Rule{
		{"errors-name-provider-and-operation", "Every error is a *provider.Error with a class, the entry's name, the operation and the ID.", func(s *suite) {
			name := "another-name"
			p := s.env.Provider(name, s.env.Owner)
			req := s.request()
			absent := s.old(s.ref(req, 1))
			bad := absent
			bad.ID = "nonsense"
			check := func(op, id string, err error) {
				var e *provider.Error
				if !errors.As(err, &e) || e.Class == nil || e.Provider != name || e.Op != op || e.ID != id {
					s.Errorf("%s: got %#v, want a *provider.Error of provider %q, op %q, ID %q", op, err, name, op, id)
				}
			}
			_, err := p.Get(s.ctx, bad)
			check("get", bad.ID, err)
			_, err = p.Get(s.ctx, absent)
			check("get", absent.ID, err)
			check("delete", bad.ID, p.Delete(s.ctx, bad))
			check("create", bad.ID, p.Create(s.ctx, req, bad))
			check("create", absent.ID, p.Create(s.ctx, req, absent))
			for _, bad := range s.env.Invalid {
				_, err := p.Plan(s.ctx, bad.Request)
				check("plan", "", err)
			}
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			_, err = p.ListByTag(ended)
			check("list", "", err)
		}},
		{"cancelled-context-is-transient", "A call whose context has ended returns promptly, is ErrTransient and makes nothing.", func(s *suite) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			req := s.request()
			ref := s.ref(req, 1)
			for op, call := range map[string]func() error{
				"create": func() error { return s.p.Create(ended, req, ref) },
				"get":    func() error { _, err := s.p.Get(ended, s.old(ref)); return err },
				"delete": func() error { return s.p.Delete(ended, ref) },
				"list":   func() error { _, err := s.p.ListByTag(ended); return err },
			} {
				err := s.within(call)
				if errors.Is(err, errTooLong) {
					s.Errorf("%s: %v", op, err)
				}
				s.expectClass(op+" with an ended context", err, provider.ErrTransient)
			}
			s.expectLeft(0, "after a cancelled Create")
		}},
		{"cancel-interrupts-a-call", "A call that hangs returns when its context ends.", func(s *suite) {
			s.need(s.env.HoldGet != nil, "HoldGet")
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			ref := s.ref(s.request(), 1)
			reached, release := s.env.HoldGet()
			defer release()
			done := make(chan error, 1)
			go func() { _, err := s.p.Get(ctx, ref); done <- err }()
			s.await(reached, "Get pausing")
			cancel()
			err := s.within(func() error { return <-done })
			if errors.Is(err, errTooLong) {
				s.Errorf("Get goes on: %v", err)
			}
			s.expectClass("Get that was interrupted", err, provider.ErrTransient)
		}},
		{"secrets-stay-secret", "Cloud-init and credentials reach no error, no instance, no list and no log line.", func(s *suite) {
			s.need(!s.env.NoCloudInit || !s.env.NoCredentials, "requests with cloud-init or credentials")
			for _, text := range append(s.provoke(), s.logged()...) {
				for _, secret := range []string{cloudInitSentinel, passwordSentinel} {
					if strings.Contains(text, secret) {
						s.Errorf("%s shows in: %s", secret, text)
					}
				}
			}
		}},
	}
}

// provoke makes everything happen that has something to say, and returns what was said.
func (s *suite) provoke() (said []string) {
	say := func(v ...any) {
		for _, v := range v {
			said = append(said, fmt.Sprintf("%+v", v))
		}
	}
	creds := func(req provider.CreateRequest) provider.CreateRequest {
		full := s.request()
		req.CloudInit, req.Credentials = full.CloudInit, full.Credentials
		return req
	}
	req := s.request()
	ref := s.ref(req, 1)
	bad := ref
	bad.ID = "nonsense"
	say(s.p.Create(s.ctx, req, bad), s.p.Create(s.ctx, req, s.old(ref)))
	for _, bad := range s.env.Invalid {
		_, err := s.p.Plan(s.ctx, creds(bad.Request))
		say(err, s.p.Create(s.ctx, creds(bad.Request), ref))
	}
	if s.env.BreakScope != nil {
		restore := s.env.BreakScope(ref.ID)
		say(s.p.Create(s.ctx, req, s.fresh(ref)))
		restore()
	}
	if s.env.LoseAnswer != nil {
		s.env.LoseAnswer()
		say(s.p.Create(s.ctx, req, s.fresh(ref)))
	}
	if s.env.FailLate != nil {
		s.env.FailLate(provider.ErrPermanent, false)
		if inst := s.failed(s.create(s.request(), 1)); inst != nil {
			say(*inst, inst.Err)
		}
	}
	other := s.request()
	ref, inst := s.running(other, 1)
	say(*inst)
	newer := s.fresh(ref)
	newer.Attempt = 2
	say(s.p.Create(s.ctx, other, newer))
	listing, err := s.p.ListByTag(s.ctx)
	say(listing, err, s.p.Delete(s.ctx, ref))
	return said
}

func (s *suite) logged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}
