package boxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Get takes the clock first and reads the box last: what is absent in that reading, after the window had passed, can never
// appear.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	const op = "get"
	at, err := p.scope(op, ref.ID)
	if err != nil {
		return nil, err
	}
	passed := p.window.Passed(ref)
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	b, err := p.api.get(ctx, at)
	switch {
	case errors.Is(err, errNoBox) && !passed:
		return &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: "nothing to be seen yet"}, nil
	case err != nil:
		return nil, p.fail(op, ref.ID, err)
	}
	marks, _ := provider.MarksFromMap(b.Tags)
	if foreign := p.owner.Foreign(marks, ref.UID); foreign != nil {
		conflict := provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, foreign)
		if !passed {
			return nil, conflict.WithReason(provider.ReasonAbsenceUnproven)
		}
		return nil, conflict
	}
	inst := p.instance(at, b)
	return &inst, nil
}

// instance translates what the service shows.
func (p *Provider) instance(at place, b box) provider.Instance {
	marks, _ := provider.MarksFromMap(b.Tags)
	inst := provider.Instance{ID: at.String(), Marks: marks, Identity: b.Serial}
	if created, err := time.Parse(time.RFC3339, b.Created); err == nil {
		inst.CreatedAt = created // zero counts as young, so the collector leaves it alone
	}
	switch b.Status {
	case "booting":
		inst.State = provider.StateProvisioning
	case "up":
		inst.State, inst.IP, inst.Port, inst.ExitAddress = provider.StateRunning, b.IP, b.Port, b.Exit
	case "off":
		inst.State = provider.StateStopped
	case "retired":
		inst.State = provider.StateTerminated
	case "removing":
		inst.State = provider.StateDeleting
	case "broken":
		inst.State, inst.Left, inst.Message = provider.StateFailed, true, "the box did not come up"
		inst.Err = p.fail("create", at.String(), codeError{code: b.Reason})
	default:
		// What is new to this provider may be a repair. It is held, never deleted.
		inst.State, inst.Message = provider.StateUnknown, fmt.Sprintf("the service says %q", b.Status)
	}
	return inst
}
