package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Get reads the record under ref.ID and asks the kernel who holds it.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	const op = "get"
	name, err := p.nameOf(op, ref.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	// The clock is read before the record: a window that passes in between must not turn "not there yet" into a proof.
	passed := p.window.Passed(ref)
	unlock, err := p.lockDir(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	defer unlock()
	r, err := p.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if passed {
			return nil, provider.Wrap(provider.ErrNotFound, op, p.name, ref.ID, nil)
		}
		return &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: "nothing is to be seen yet"}, nil
	case errors.Is(err, errForeignFile):
		if h, holdErr := p.holder(name); holdErr == nil && h.pid > 0 {
			// A proxy of this very file holds it: what was damaged is ours, and its process is not absent.
			return nil, p.fail(op, ref.ID, fmt.Errorf("the record is damaged while its process %d runs; end the process or restore the file", h.pid))
		}
		return p.foreign(ref, passed, err)
	case err != nil:
		return nil, p.fail(op, ref.ID, err)
	}
	if err := p.owner.Foreign(r.Marks, ref.UID); err != nil {
		return p.foreign(ref, passed, err)
	}
	inst, err := p.instance(r)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	return &inst, nil
}

// foreign answers ErrConflict once that is also a proof that ours is absent.
func (p *Provider) foreign(ref provider.Ref, passed bool, err error) (*provider.Instance, error) {
	e := provider.Wrap(provider.ErrConflict, "get", p.name, ref.ID, err)
	if !passed {
		e = e.WithReason(provider.ReasonAbsenceUnproven)
	}
	return nil, e
}

func (p *Provider) instance(r record) (provider.Instance, error) {
	inst := provider.Instance{ID: p.id(r.Name), Marks: r.Marks, Identity: r.Identity, CreatedAt: r.CreatedAt}
	h, err := p.holder(r.Name)
	switch {
	case err != nil:
		return inst, err
	case h.deleting:
		inst.State = provider.StateDeleting
	case h.stranger != "":
		inst.State, inst.Message = provider.StateUnknown, "the record is held by "+h.stranger
	case h.pid == 0:
		inst.State, inst.Message = provider.StateStopped, "the process is not running"
	default:
		inst.State, inst.IP, inst.Port, inst.ExitAddress = provider.StateRunning, r.Listen.String(), r.Port, r.Exit.String()
	}
	return inst, nil
}

// ListByTag returns the instances in the folder that carry this installation's marks.
func (p *Provider) ListByTag(ctx context.Context) (provider.Listing, error) {
	const op = "list"
	ctx, cancel := p.bound(ctx)
	defer cancel()
	unlock, err := p.lockDir(ctx, unix.LOCK_SH)
	if err != nil {
		return provider.Listing{}, p.fail(op, "", err)
	}
	defer unlock()
	records, err := p.all()
	if err != nil {
		return provider.Listing{}, p.fail(op, "", err)
	}
	var out provider.Listing
	for _, r := range records {
		if !p.owner.Owns(r.Marks) {
			continue
		}
		inst, err := p.instance(r)
		if err != nil {
			return provider.Listing{}, p.fail(op, "", err)
		}
		out.Instances = append(out.Instances, inst)
	}
	return out, nil
}
