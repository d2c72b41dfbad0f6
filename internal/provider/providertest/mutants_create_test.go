package providertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// mutants returns one breakage for each rule, by the rule's name.
func mutants() map[string]breakage {
	all := map[string]breakage{}
	for _, part := range []map[string]breakage{planMutants(), createMutants(), getMutants(), deleteMutants(), otherMutants(), watchMutants()} {
		maps.Copy(all, part)
	}
	return all
}

func breakWith(do func(m *mutant)) breakage { return breakage{do: do} }

func planMutants() map[string]breakage {
	return map[string]breakage{
		"plan-has-no-side-effect": breakWith(func(m *mutant) {
			m.plan = func(ctx context.Context, req provider.CreateRequest) (string, error) {
				id, err := m.Watching.Plan(ctx, req)
				if _, there := m.standingMarks(provider.Ref{ID: id}); err == nil && !there {
					m.backend.Place(id, nil, 1)
				}
				return id, err
			}
		}),
		"plan-is-deterministic": breakWith(func(m *mutant) {
			var n atomic.Int32
			m.plan = func(_ context.Context, req provider.CreateRequest) (string, error) {
				return fmt.Sprintf("zones/zone-a/instances/%s-%d", req.Name, n.Add(1)), nil
			}
		}),
		"plan-gives-each-proxy-its-own-id": breakWith(func(m *mutant) {
			m.plan = func(context.Context, provider.CreateRequest) (string, error) { return "zones/zone-a/instances/it", nil }
		}),
		"plan-id-names-its-scope": breakWith(func(m *mutant) {
			m.plan = func(_ context.Context, req provider.CreateRequest) (string, error) { return req.Name, nil }
		}),
		"plan-id-ends-in-the-name": breakWith(func(m *mutant) {
			m.plan = func(ctx context.Context, req provider.CreateRequest) (string, error) {
				id, err := m.Watching.Plan(ctx, req)
				return id + "-1", err
			}
		}),
		"plan-names-the-field": breakWith(func(m *mutant) {
			m.plan = func(ctx context.Context, req provider.CreateRequest) (string, error) {
				id, err := m.Watching.Plan(ctx, req)
				if err != nil {
					err = provider.Wrap(provider.ErrPermanent, "plan", m.name, "", errors.New("bad request"))
				}
				return id, err
			}
		}),
		"create-refuses-what-plan-refuses": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				zone, _ := m.backend.zoneOf(ref.ID)
				return m.backend.insert(ctx, ref, insertion{id: ref.ID, zone: zone, labels: m.owner.MarksFor(req, ref).ToMap()})
			}
		}),
	}
}

func createMutants() map[string]breakage {
	before := func(change func(m *mutant, req *provider.CreateRequest, ref *provider.Ref)) func(m *mutant) {
		return func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				change(m, &req, &ref)
				return m.Watching.Create(ctx, req, ref)
			}
		}
	}
	after := func(f func(m *mutant, req provider.CreateRequest, ref provider.Ref, err error) error) func(m *mutant) {
		return func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				return f(m, req, ref, m.Watching.Create(ctx, req, ref))
			}
		}
	}
	var made atomic.Int64 // not the backend's count of calls, which two Creates at once may read alike
	double := after(func(m *mutant, req provider.CreateRequest, ref provider.Ref, err error) error {
		extra := provider.Ref{ID: fmt.Sprintf("%s-%d", ref.ID, made.Add(1)), UID: ref.UID, Attempt: ref.Attempt}
		if m.backend.Calls(OpCreateRead) > 1 {
			m.backend.Place(extra.ID, m.owner.MarksFor(req, extra).ToMap(), req.Port)
		}
		return err
	})
	return map[string]breakage{
		"create-returns-once-accepted": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				if err := m.Watching.Create(ctx, req, ref); err != nil {
					return err
				}
				if inst, err := m.Watching.Get(ctx, ref); err != nil || inst.State == provider.StateRunning {
					return err
				}
				<-ctx.Done() // nothing moves the clock while it waits
				return m.wrap("create", ref.ID, ctx.Err())
			}
		}),
		"create-is-idempotent": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				if _, there := m.standingMarks(ref); there {
					return m.wrap("create", ref.ID, errExists)
				}
				return m.Watching.Create(ctx, req, ref)
			}
		}),
		"create-concurrently-makes-one": {do: double},
		"create-recovers-a-lost-answer": {do: double},
		"create-refuses-another-id": {do: before(func(m *mutant, req *provider.CreateRequest, ref *provider.Ref) {
			ref.ID, _ = m.Stateful.Plan(context.Background(), *req)
		})},
		"create-refuses-after-its-window": {do: before(func(m *mutant, _ *provider.CreateRequest, ref *provider.Ref) {
			ref.RequestedAt = m.window.Clock.Now()
		})},
		"create-checks-its-window-before-sending": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				if err := m.window.CheckSend(m.name, ref); err != nil {
					return err
				}
				zone, _ := m.backend.zoneOf(ref.ID)
				if there, err := m.standing(ctx, ref, zone); there || err != nil {
					return err
				}
				return m.backend.insert(ctx, ref, insertion{
					id: ref.ID, zone: zone, token: provider.CreateToken(ref.UID, ref.Attempt), labels: m.owner.MarksFor(req, ref).ToMap(),
				})
			}
		}),
		"create-refuses-beside-an-older-attempt": breakWith(func(m *mutant) {
			m.succeedOn(func(found provider.Marks, ref provider.Ref) bool {
				return found.UID == ref.UID && found.Attempt < ref.Attempt
			})
		}),
		"create-refuses-beside-a-newer-attempt": breakWith(func(m *mutant) {
			m.succeedOn(func(found provider.Marks, ref provider.Ref) bool {
				return found.UID == ref.UID && found.Attempt > ref.Attempt
			})
		}),
		"create-judges-who-was-faster": {do: after(func(_ *mutant, _ provider.CreateRequest, _ provider.Ref, err error) error {
			if provider.Reason(err) == provider.ReasonAttemptMismatch {
				return nil // adopts by name
			}
			return err
		})},
		"create-refuses-foreign": breakWith(func(m *mutant) {
			m.succeedOn(func(found provider.Marks, _ provider.Ref) bool { return found.UID != "" && !m.owner.Owns(found) })
		}),
		"create-refuses-unmarked": breakWith(func(m *mutant) {
			m.succeedOn(func(found provider.Marks, _ provider.Ref) bool { return found == provider.Marks{} })
		}),
		"create-never-says-notfound": {do: after(func(m *mutant, _ provider.CreateRequest, ref provider.Ref, err error) error {
			if errors.Is(err, errUnreachable) {
				return m.wrap("create", ref.ID, errAbsent)
			}
			return err
		})},
		"create-sets-all-marks": {do: before(func(_ *mutant, req *provider.CreateRequest, _ *provider.Ref) { req.Spec = "" })},
		"create-marks-from-the-start": breakWith(func(m *mutant) {
			m.fixGet(func(_ provider.Ref, inst *provider.Instance) {
				if inst.State == provider.StateProvisioning && inst.Identity != "" {
					inst.Marks.Namespace = ""
				}
			})
		}),
	}
}
