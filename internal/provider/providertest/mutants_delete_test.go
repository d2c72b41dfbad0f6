package providertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func deleteMutants() map[string]breakage {
	return map[string]breakage{
		"delete-is-idempotent": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if _, there := m.standingMarks(ref); !there {
					return m.wrap("delete", ref.ID, errAbsent)
				}
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"delete-may-be-repeated": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if inst, err := m.Watching.Get(ctx, ref); err == nil && inst.State == provider.StateDeleting {
					return m.wrap("delete", ref.ID, errors.New("already being deleted"))
				}
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"delete-removes-everything": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				m.backend.OnCall(func(op string, _ provider.Ref) Fault { return Fault{LeaveParts: op == OpDelete} })
				return m.Watching.Delete(ctx, ref)
			}
			m.missing(func(_ provider.Ref, inst *provider.Instance) bool { return inst.State == provider.StateTerminated })
		}),
		"delete-works-before-running": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if inst, err := m.Watching.Get(ctx, ref); err == nil && inst.State == provider.StateProvisioning {
					return nil
				}
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"delete-spares-another-attempt": breakWith(func(m *mutant) {
			m.removeWhere(func(found provider.Marks, ref provider.Ref) bool { return found.UID == ref.UID })
		}),
		"delete-spares-another-identity": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				ref.Identity = ""
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"delete-is-bound-to-what-it-saw": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if identity, err := m.identify(ctx, "delete", OpDeleteRead, ref, "zone-a"); identity == "" || err != nil {
					return err
				}
				return m.backend.call(ctx, OpDelete, ref, "zone-a", func(time.Time, Fault) error {
					delete(m.backend.machines, ref.ID) // by name
					return nil
				})
			}
		}),
		"delete-spares-foreign": breakWith(func(m *mutant) {
			m.removeWhere(func(found provider.Marks, ref provider.Ref) bool {
				return found.UID == ref.UID && found.Attempt == ref.Attempt && found.Installation == m.owner.Installation
			})
		}),
		"delete-spares-another-proxy": breakWith(func(m *mutant) {
			m.removeWhere(func(found provider.Marks, ref provider.Ref) bool {
				return m.owner.Owns(found) && found.Attempt == ref.Attempt
			})
		}),
		"delete-spares-unmarked": breakWith(func(m *mutant) {
			m.removeWhere(func(found provider.Marks, _ provider.Ref) bool { return found == provider.Marks{} })
		}),
		"delete-scope-mismatch": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if _, ok := m.backend.zoneOf(ref.ID); !ok {
					return nil
				}
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"delete-fails-in-an-unreadable-scope": breakWith(func(m *mutant) {
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				if err := m.Watching.Delete(ctx, ref); !errors.Is(err, errUnreachable) {
					return err
				}
				return nil
			}
		}),
		"next-attempt-follows-notfound": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				ref.Attempt = 1 // a token of the UID alone
				return m.Watching.Create(ctx, req, ref)
			}
		}),
		"vanished-is-notfound": breakWith(func(m *mutant) {
			known := map[string]*provider.Instance{}
			m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
				inst, err := m.Watching.Get(ctx, ref)
				if err == nil {
					known[ref.ID] = inst
				} else if known[ref.ID] != nil {
					return known[ref.ID], nil // from memory
				}
				return inst, err
			}
		}),
	}
}

func otherMutants() map[string]breakage {
	classed := func(from, to error) breakage {
		reclass := func(m *mutant, op, id string, err error) error {
			if err != nil && provider.Class(err) == from {
				return provider.Wrap(to, op, m.name, id, errMutant)
			}
			return err
		}
		return breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				return reclass(m, "create", ref.ID, m.Watching.Create(ctx, req, ref))
			}
			m.list = func(ctx context.Context) (provider.Listing, error) {
				l, err := m.Watching.ListByTag(ctx)
				return l, reclass(m, "list", "", err)
			}
		})
	}
	hiding := func(f func(provider.Instance) bool) breakage {
		return breakWith(func(m *mutant) { m.fixList(func(inst provider.Instance) bool { return !f(inst) }) })
	}
	// lenient lists everything whose labels f accepts.
	lenient := func(f func(m *mutant, l Leftover) bool) breakage {
		return breakWith(func(m *mutant) {
			m.list = func(context.Context) (listing provider.Listing, err error) {
				for _, l := range m.backend.Instances() {
					if f(m, l) {
						listing.Instances = append(listing.Instances, provider.Instance{ID: l.ID, Marks: l.Marks, Identity: l.Identity})
					}
				}
				return listing, nil
			}
		})
	}
	return map[string]breakage{
		"quota-is-quota-exceeded":    classed(provider.ErrQuotaExceeded, provider.ErrTransient),
		"throttling-is-transient":    classed(provider.ErrTransient, provider.ErrQuotaExceeded),
		"refused-operator-is-denied": classed(provider.ErrDenied, provider.ErrPermanent),
		"list-shows-only-own":        lenient(func(m *mutant, l Leftover) bool { return l.Marks.Installation == m.owner.Installation }),
		"list-leaves-out-unmarked": lenient(func(m *mutant, l Leftover) bool {
			return l.Marks == provider.Marks{} || m.owner.Owns(l.Marks)
		}),
		"list-agrees-with-get": lenient(func(m *mutant, l Leftover) bool { return m.owner.Owns(l.Marks) }),
		"list-serves-delete": breakWith(func(m *mutant) {
			m.list = func(ctx context.Context) (provider.Listing, error) {
				l, err := m.Watching.ListByTag(ctx)
				for i := range l.Instances {
					l.Instances[i].ID = strings.TrimPrefix(l.Instances[i].ID, "zones/zone-a/instances/")
				}
				return l, err
			}
		}),
		"list-shows-stopped":               hiding(func(inst provider.Instance) bool { return inst.State == provider.StateStopped }),
		"list-shows-what-is-being-deleted": hiding(func(inst provider.Instance) bool { return inst.State == provider.StateDeleting }),
		"list-reads-every-page": breakWith(func(m *mutant) {
			m.list = func(ctx context.Context) (provider.Listing, error) {
				l, err := m.Watching.ListByTag(ctx)
				l.Instances = l.Instances[:min(100, len(l.Instances))]
				return l, err
			}
		}),
		"list-names-unread-scopes": breakWith(func(m *mutant) {
			m.list = func(ctx context.Context) (provider.Listing, error) {
				l, err := m.Watching.ListByTag(ctx)
				l.Unread = nil
				return l, err
			}
		}),
		"errors-name-provider-and-operation": breakWith(func(m *mutant) { m.name = "stateful" }),
		"cancelled-context-is-transient": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				return m.Watching.Create(context.WithoutCancel(ctx), req, ref)
			}
		}),
		"cancel-interrupts-a-call": breakWith(func(m *mutant) {
			m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
				return m.Watching.Get(context.WithoutCancel(ctx), ref)
			}
		}),
		"secrets-stay-secret": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				logr.FromContextOrDiscard(ctx).V(4).Info("creating", "userData", req.CloudInit)
				return m.Watching.Create(ctx, req, ref)
			}
		}),
		"restart-forgets-nothing": breakWith(func(m *mutant) {
			mine := map[string]bool{}
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				mine[ref.ID] = true
				return m.Watching.Create(ctx, req, ref)
			}
			m.fixList(func(inst provider.Instance) bool { return mine[inst.ID] })
		}),
		"calls-are-safe-side-by-side": breakWith(func(m *mutant) {
			// Holds one slot for all deletions, and refuses who does not get it.
			var mu sync.Mutex
			pending := map[string]bool{}
			m.delete = func(ctx context.Context, ref provider.Ref) error {
				mu.Lock()
				defer mu.Unlock()
				pending[ref.ID] = true
				if len(pending) > 1 {
					return m.wrap("delete", ref.ID, errMutant)
				}
				return m.Watching.Delete(ctx, ref)
			}
		}),
		"update-credentials-changes-them": breakWith(func(m *mutant) {
			m.update = func(context.Context, provider.Ref, provider.Credentials) error { return nil }
		}),
		"update-credentials-spares-others": breakWith(func(m *mutant) {
			m.update = func(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
				ref.Attempt = 2
				return m.Watching.UpdateCredentials(ctx, ref, creds)
			}
		}),
	}
}
