package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Get takes the clock first, then the operation, and reads the instance last: what is absent in the last reading cannot
// be the effect of something that had ended before.
func (s *Stateful) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	zone, err := s.scope("get", ref.ID)
	if err != nil {
		return nil, err
	}
	passed := s.window.Passed(ref)
	op, err := s.backend.readOperation(ctx, ref, zone)
	if err != nil {
		return nil, s.wrap("get", ref.ID, err)
	}
	proven := passed || op != nil && !op.ended.IsZero() && s.remembers()
	m, at, err := s.backend.read(ctx, OpGet, ref, zone)
	switch {
	case err == nil:
		marks, _ := provider.MarksFromMap(m.labels)
		foreign := s.owner.Foreign(marks, ref.UID)
		if foreign == nil {
			inst := s.instance(m, at)
			return &inst, nil
		}
		conflict := provider.Wrap(provider.ErrConflict, "get", s.name, ref.ID, foreign)
		if !proven {
			conflict = conflict.WithReason(provider.ReasonAbsenceUnproven)
		}
		return nil, conflict
	case !errors.Is(err, errAbsent):
		return nil, s.wrap("get", ref.ID, err)
	case op != nil && op.ended.IsZero():
		inst := waiting(ref.ID, "the creation is in progress")
		inst.Marks = provider.Marks{UID: ref.UID, Attempt: ref.Attempt} // what its token stands for
		return inst, nil
	case !proven:
		return waiting(ref.ID, "nothing to be seen yet"), nil
	case op != nil && op.err != nil:
		return &provider.Instance{ //nolint:nilerr // absence is what is reported; Err says how it came about
			ID: ref.ID, State: provider.StateFailed, Marks: provider.Marks{UID: ref.UID, Attempt: ref.Attempt},
			Err: s.wrap("create", ref.ID, op.err), Message: "the creation failed and left nothing",
		}, nil
	}
	return nil, s.wrap("get", ref.ID, err)
}

// remembers reports whether the backend outlives every call in remembering how a creation ended, so that no late call
// with the same token can bring the instance into being after all.
func (s *Stateful) remembers() bool {
	memory := s.backend.opts.TokenMemory
	return memory == 0 || memory > s.window.CallTimeout+s.window.Visibility+s.window.Skew
}

// waiting is Provisioning without anything to show: no identity, which tells it from an instance that is shown, and no
// marks, which say that the backend knows nothing of the attempt.
func waiting(id, why string) *provider.Instance {
	return &provider.Instance{ID: id, State: provider.StateProvisioning, Message: why}
}

// ListByTag lists the zones that can be read and names the others.
func (s *Stateful) ListByTag(ctx context.Context) (provider.Listing, error) {
	machines, at, unread, err := s.backend.list(ctx)
	if err != nil {
		return provider.Listing{}, s.wrap("list", "", err)
	}
	listing := provider.Listing{Unread: unread}
	for _, m := range machines {
		if marks, ok := provider.MarksFromMap(m.labels); ok && s.owner.Owns(marks) {
			listing.Instances = append(listing.Instances, s.instance(m, at))
		}
	}
	return listing, nil
}

// instance translates what the backend shows at the given time.
func (s *Stateful) instance(m machine, at time.Time) provider.Instance {
	marks, _ := provider.MarksFromMap(m.labels)
	inst := provider.Instance{ID: m.id, Marks: marks, Identity: m.identity, CreatedAt: m.created, Message: m.message}
	switch {
	case m.deleting:
		inst.State = provider.StateDeleting
	case m.failure != nil:
		inst.State, inst.Left = provider.StateFailed, true
		inst.Err, inst.Message = s.wrap("create", m.id, m.failure), "the creation failed half-way"
	case !m.main:
		inst.State, inst.Message = provider.StateTerminated, "only its disk is left"
	case m.condition != "":
		inst.State = m.condition
	case at.Before(m.running):
		inst.State = provider.StateProvisioning
	default:
		inst.State, inst.Port = provider.StateRunning, m.port
		inst.IP, inst.ExitAddress = m.ip("10"), m.ip("100")
	}
	return inst
}

// Updating is a Stateful that also changes credentials in place.
type Updating struct{ *Stateful }

var _ provider.CredentialUpdater = Updating{}

// UpdateCredentials gives the attempt's instance the credentials. It fails with ErrTransient where that attempt is
// absent and with ErrConflict where a stranger stands.
func (u Updating) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	const op = "updatecredentials"
	zone, err := u.scope(op, ref.ID)
	if err != nil {
		return err
	}
	identity, err := u.identify(ctx, op, OpUpdateRead, ref, zone)
	if err != nil {
		return err
	}
	err = errAbsent
	if identity != "" {
		err = u.backend.update(ctx, ref, zone, identity, creds.Revision)
	}
	if errors.Is(err, errAbsent) {
		return provider.Wrap(provider.ErrTransient, op, u.name, ref.ID, fmt.Errorf("attempt %d: %w", ref.Attempt, err))
	}
	return u.wrap(op, ref.ID, err)
}
