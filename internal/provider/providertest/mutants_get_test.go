package providertest

import (
	"context"
	"errors"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func getMutants() map[string]breakage {
	changed := func(f func(ref provider.Ref, inst *provider.Instance)) breakage {
		return breakWith(func(m *mutant) { m.fixGet(f) })
	}
	denied := func(f func(m *mutant, ref provider.Ref, inst *provider.Instance) bool) breakage {
		return breakWith(func(m *mutant) {
			m.missing(func(ref provider.Ref, inst *provider.Instance) bool { return f(m, ref, inst) })
		})
	}
	answering := func(matches func(error) bool, answer func(m *mutant, ref provider.Ref) (*provider.Instance, error)) breakage {
		return breakWith(func(m *mutant) {
			m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
				inst, err := m.Watching.Get(ctx, ref)
				if err != nil && matches(err) {
					return answer(m, ref)
				}
				return inst, err
			}
		})
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	absent := func(m *mutant, ref provider.Ref) (*provider.Instance, error) {
		return nil, m.wrap("get", ref.ID, errAbsent)
	}
	unseen := func(inst *provider.Instance) bool {
		return inst.State == provider.StateProvisioning && inst.Identity == ""
	}
	early := denied(func(_ *mutant, _ provider.Ref, inst *provider.Instance) bool { return unseen(inst) })
	return map[string]breakage{
		"get-says-provisioning-within-the-window": denied(func(m *mutant, ref provider.Ref, inst *provider.Instance) bool {
			// Counts the call timeout alone.
			return unseen(inst) && m.window.Clock.Now().After(m.window.Deadline(ref))
		}),
		"get-says-notfound-after-the-window": answering(is(provider.ErrNotFound),
			func(_ *mutant, ref provider.Ref) (*provider.Instance, error) {
				return waiting(ref.ID, "never sure"), nil
			}),
		"get-waits-for-a-late-call":   {kind: KindName, do: early.do},
		"get-waits-for-a-late-effect": early,
		"get-takes-the-clock-first": denied(func(m *mutant, ref provider.Ref, inst *provider.Instance) bool {
			return unseen(inst) && m.window.Passed(ref)
		}),
		"get-reads-the-instance-last": breakWith(func(m *mutant) {
			m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
				_, there := m.standingMarks(ref)
				inst, err := m.Watching.Get(ctx, ref)
				op, _ := m.backend.readOperation(ctx, ref, "zone-a")
				if !there && op != nil && !op.ended.IsZero() {
					return absent(m, ref)
				}
				return inst, err
			}
		}),
		"get-foreign-waits-for-the-window": breakWith(func(m *mutant) {
			m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
				if found, there := m.standingMarks(ref); there {
					if err := m.owner.Foreign(found, ref.UID); err != nil {
						return nil, provider.Wrap(provider.ErrConflict, "get", m.name, ref.ID, err)
					}
				}
				return m.Watching.Get(ctx, ref)
			}
		}),
		"get-running-has-an-address": changed(func(_ provider.Ref, inst *provider.Instance) { inst.IP = "" }),
		"get-shows-what-is-being-deleted": denied(func(_ *mutant, _ provider.Ref, inst *provider.Instance) bool {
			return inst.State == provider.StateDeleting
		}),
		"get-shows-another-attempt": denied(func(_ *mutant, ref provider.Ref, inst *provider.Instance) bool {
			return inst.Marks.Attempt != ref.Attempt
		}),
		"get-scope-mismatch": answering(func(err error) bool { return provider.Reason(err) == provider.ReasonScopeMismatch }, absent),
		"get-foreign-is-conflict": answering(func(err error) bool {
			return errors.Is(err, provider.ErrConflict) && strings.Contains(err.Error(), "belongs to cluster")
		}, absent),
		"get-other-uid-is-conflict": answering(func(err error) bool {
			return errors.Is(err, provider.ErrConflict) && strings.Contains(err.Error(), "Proxy UID")
		}, absent),
		"get-unmarked-is-conflict": answering(func(err error) bool {
			return errors.Is(err, provider.ErrConflict) && strings.Contains(err.Error(), "without marks")
		}, absent),
		"get-unreadable-is-not-absent": answering(is(errUnreachable), absent),
		"get-stopped-still-exists": denied(func(_ *mutant, _ provider.Ref, inst *provider.Instance) bool {
			return inst.State == provider.StateTerminated
		}),
		"get-unrecognised-is-unknown": changed(func(_ provider.Ref, inst *provider.Instance) {
			if inst.State == provider.StateUnknown {
				inst.State = provider.StateStopped
			}
		}),
		"get-shows-what-parts-are-left": denied(func(_ *mutant, _ provider.Ref, inst *provider.Instance) bool {
			return inst.Message == "only its disk is left"
		}),
		"get-reads-identity-back": changed(func(ref provider.Ref, inst *provider.Instance) { inst.Identity = ref.ID }),
		"get-reads-creation-time-back": breakWith(func(m *mutant) {
			m.fixGet(func(_ provider.Ref, inst *provider.Instance) { inst.CreatedAt = m.window.Clock.Now() })
		}),
		"late-failure-is-classified": changed(func(_ provider.Ref, inst *provider.Instance) {
			if inst.State == provider.StateFailed {
				inst.Err = errMutant
			}
		}),
		"late-failure-tells-what-is-left": changed(func(_ provider.Ref, inst *provider.Instance) { inst.Left = false }),
		"late-failure-frees-the-next-attempt": breakWith(func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
				zone, _ := m.backend.zoneOf(ref.ID)
				return m.wrap("create", ref.ID, m.backend.insert(ctx, ref, insertion{
					id: ref.ID, zone: zone, token: req.UID, port: req.Port, labels: m.owner.MarksFor(req, ref).ToMap(),
				}))
			}
		}),
	}
}
