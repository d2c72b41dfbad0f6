package providertest

import (
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

func lifeRules() []Rule {
	return []Rule{
		{"restart-forgets-nothing", "A provider constructed anew sees and removes everything that an earlier one made.", func(s *suite) {
			running, before := s.running(s.request(), 1)
			starting := s.create(s.request(), 1)
			deleting, _ := s.running(s.request(), 1)
			if err := s.p.Delete(s.ctx, deleting); err != nil {
				s.Fatalf("Delete = %v", err)
			}
			s.p = s.restart()
			s.expectUntouched(s.p, running, before, "a restart")
			s.reach(starting, provider.StateRunning)
			s.gone(deleting)
			s.list("both in the list", func(listed map[string]provider.Instance) string {
				if _, ok := listed[running.ID]; !ok || len(listed) != 2 {
					return "it has others"
				}
				return ""
			})
			s.p = s.restart()
			s.deleteAndWait(running)
			s.deleteAndWait(starting)
			s.expectLeft(0, "after everything was deleted")
		}},
		{"calls-are-safe-side-by-side", "Different instances can be created, read, listed and deleted at the same time.", func(s *suite) {
			const parallel = 8
			reqs := make([]provider.CreateRequest, parallel)
			refs := make([]provider.Ref, parallel)
			for i := range reqs {
				reqs[i] = s.request()
				refs[i] = s.ref(reqs[i], 1)
			}
			var wg sync.WaitGroup
			for i := range reqs {
				wg.Go(func() {
					if err := s.p.Create(s.ctx, reqs[i], refs[i]); err != nil {
						s.Errorf("Create beside others = %v", err)
					}
					if _, err := s.p.Get(s.ctx, refs[i]); err != nil {
						s.Errorf("Get beside others = %v", err)
					}
					if _, err := s.p.ListByTag(s.ctx); err != nil {
						s.Errorf("ListByTag beside others = %v", err)
					}
				})
			}
			wg.Wait()
			for _, ref := range refs {
				s.reach(ref, provider.StateRunning)
			}
			for _, ref := range refs {
				wg.Go(func() {
					if err := s.p.Delete(s.ctx, ref); err != nil {
						s.Errorf("Delete beside others = %v", err)
					}
				})
			}
			wg.Wait()
			for _, ref := range refs {
				s.gone(ref)
			}
			s.expectLeft(0, "after all were deleted")
		}},
	}
}

func credentialRules() []Rule {
	updater := func(s *suite) provider.CredentialUpdater {
		u, ok := instrument.As[provider.CredentialUpdater](s.p)
		if !ok {
			s.Skipf("the provider does not update credentials")
		}
		s.need(s.env.CredentialRevision != nil, "CredentialRevision")
		return u
	}
	next := provider.Credentials{Username: "user", Password: passwordSentinel, Revision: "r2"}
	return []Rule{
		{"update-credentials-changes-them", "UpdateCredentials gives the instance the new credentials, repeatedly, without replacing it.", func(s *suite) {
			u := updater(s)
			ref, before := s.running(s.request(), 1)
			for range 2 {
				if err := u.UpdateCredentials(s.ctx, ref, next); err != nil {
					s.Errorf("UpdateCredentials = %v", err)
				}
			}
			s.poll("the new credentials", func() string {
				if got := s.env.CredentialRevision(ref.ID); got != next.Revision {
					return "it has revision " + got
				}
				return ""
			})
			s.expectUntouched(s.p, ref, before, "UpdateCredentials")
		}},
		{"update-credentials-spares-others", "UpdateCredentials fails where the named attempt is not, and changes nothing.", func(s *suite) {
			u := updater(s)
			ref, _ := s.running(s.request(), 2)
			for _, other := range []provider.Ref{
				{ID: ref.ID, UID: ref.UID, Attempt: 1, RequestedAt: ref.RequestedAt},
				{ID: ref.ID, UID: s.env.Request().UID, Attempt: 2, RequestedAt: ref.RequestedAt},
			} {
				if err := u.UpdateCredentials(s.ctx, other, next); err == nil {
					s.Errorf("UpdateCredentials of attempt %d of %s succeeded", other.Attempt, other.UID)
				}
			}
			if got := s.env.CredentialRevision(ref.ID); got == next.Revision {
				s.Errorf("the credentials have changed")
			}
		}},
	}
}
