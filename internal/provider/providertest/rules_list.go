package providertest

import (
	"fmt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func listRules() []Rule {
	return []Rule{
		{"list-shows-only-own", "ListByTag leaves out other installations and other clusters.", func(s *suite) {
			own, _ := s.running(s.request(), 1)
			for _, otherCluster := range []bool{false, true} {
				s.foreign(s.request(), otherCluster)
			}
			s.onlyOne(own)
		}},
		{"list-leaves-out-unmarked", "ListByTag leaves out what carries no marks.", func(s *suite) {
			s.need(s.env.Place != nil, "Place")
			s.env.Place(s.ref(s.request(), 1).ID)
			own, _ := s.running(s.request(), 1)
			s.onlyOne(own)
		}},
		{"list-agrees-with-get", "What ListByTag shows, Get shows under the same ID with the same marks, identity and creation time.", func(s *suite) {
			ref, inst := s.running(s.request(), 1)
			s.list("the instance in the list as Get shows it", func(listed map[string]provider.Instance) string {
				got, ok := listed[ref.ID]
				if !ok {
					return "it is not listed"
				}
				if got.Identity != inst.Identity || got.Marks != inst.Marks || !got.CreatedAt.Equal(inst.CreatedAt) ||
					got.State != inst.State || got.IP != inst.IP || got.Port != inst.Port || got.ExitAddress != inst.ExitAddress {
					return fmt.Sprintf("listed as %+v, Get shows %+v", got, *inst)
				}
				return ""
			})
		}},
		{"list-serves-delete", "ID, marks and identity as listed are all that Get and Delete need.", func(s *suite) {
			s.running(s.request(), 4)
			var ref provider.Ref
			s.list("the instance in the list", func(listed map[string]provider.Instance) string {
				for id, inst := range listed {
					ref = provider.Ref{ID: id, UID: inst.Marks.UID, Attempt: inst.Marks.Attempt, Identity: inst.Identity}
					return ""
				}
				return "nothing is listed"
			})
			if inst, err := s.restart().Get(s.ctx, ref); err != nil || inst.Identity != ref.Identity {
				s.Errorf("Get of what is listed = %s", describe(inst, err))
			}
			if err := s.restart().Delete(s.ctx, ref); err != nil {
				s.Errorf("Delete of what is listed = %v", err)
			}
			s.gone(ref)
			s.expectLeft(0, "after Delete of what was listed")
		}},
		{"list-shows-stopped", "ListByTag shows stopped and terminated instances.", func(s *suite) {
			s.need(s.env.Stop != nil || s.env.Terminate != nil, "Stop and Terminate")
			for _, end := range []func(string){s.env.Stop, s.env.Terminate} {
				if end == nil {
					continue
				}
				ref, _ := s.running(s.request(), 1)
				end(ref.ID)
				s.list("the instance in the list, not running", func(listed map[string]provider.Instance) string {
					if inst, ok := listed[ref.ID]; !ok {
						s.Fatalf("a stopped instance is not listed")
					} else if inst.State == provider.StateRunning {
						return "it is listed as Running"
					}
					return ""
				})
			}
		}},
		{"list-shows-what-is-being-deleted", "ListByTag shows an instance until nothing of it is left.", func(s *suite) {
			ref, _ := s.running(s.request(), 1)
			s.list("the instance in the list", func(listed map[string]provider.Instance) string {
				if _, ok := listed[ref.ID]; !ok {
					return "it is not listed"
				}
				return ""
			})
			if err := s.p.Delete(s.ctx, ref); err != nil {
				s.Fatalf("Delete = %v", err)
			}
			s.list("the list being empty", func(listed map[string]provider.Instance) string {
				if _, ok := listed[ref.ID]; ok {
					return "it is still listed"
				}
				// The probe comes second: what it finds was there when the list left it out.
				s.expectLeft(0, "after the list has left it out")
				return ""
			})
		}},
		{"list-reads-every-page", "ListByTag shows all instances, however many.", func(s *suite) {
			want := map[string]bool{}
			for range s.env.Many {
				want[s.create(s.request(), 1).ID] = true
			}
			s.list("all instances in the list", func(listed map[string]provider.Instance) string {
				if len(listed) != len(want) {
					return fmt.Sprintf("%d of %d are listed", len(listed), len(want))
				}
				return ""
			})
		}},
		{"list-names-unread-scopes", "A scope that cannot be read is named in Unread, or the whole list is an error.", func(s *suite) {
			s.need(s.env.BreakScope != nil, "BreakScope")
			ref, _ := s.running(s.request(), 1)
			restore := s.env.BreakScope(ref.ID)
			listing, err := s.p.ListByTag(s.ctx)
			if err == nil && len(listing.Unread) == 0 {
				s.Errorf("%d instances are listed, no error, nothing unread", len(listing.Instances))
			}
			restore()
			if listing, err = s.p.ListByTag(s.ctx); err != nil || len(listing.Unread) != 0 {
				s.Errorf("once it can be read again: %v, unread %v", err, listing.Unread)
			}
		}},
	}
}
