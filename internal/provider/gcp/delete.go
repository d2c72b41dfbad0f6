package gcp

import (
	"context"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Delete asks for the removal of the VM, whose disk goes with it, or of the disk that it has left. While a removal is under way
// it asks for no other. After one that failed it says why, and has asked for another.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	ctx = p.calling(ctx, "delete", ref.ID)
	err := p.remove(ctx, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) remove(ctx context.Context, ref provider.Ref) error {
	const op = "delete"
	at, err := p.placeOf(op, ref.ID)
	if err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	found, err := p.look(ctx, at, ref.UID)
	if err == nil && found.empty() {
		// The same would be said where project or zone are not there; that operations can be listed proves that they are.
		_, err = p.creation(ctx, at, ref)
	}
	if err != nil {
		if err = p.inZone(ctx, at.zone, err); nowhere(err) {
			return nil
		}
		return p.fail(op, ref.ID, err)
	}
	if found.empty() {
		return nil
	}
	m := found.marks()
	if err := p.owner.Foreign(m, ref.UID); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	id := found.identity()
	if m.Attempt != ref.Attempt || ref.Identity != "" && ref.Identity != id {
		return nil // what ref names is not there
	}
	last, err := p.deletion(ctx, at.zone, id)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	var before string
	var why error
	if last != nil {
		// It is under way, or has ended well: then what was read above is behind.
		if why = failed(last); last.Status != operationDone || why == nil {
			return nil
		}
		before = last.Name
	}
	token := deleteToken(id, before)
	if found.vm != nil {
		err = p.api.deleteInstance(ctx, at.zone, id, token)
	} else {
		err = p.api.deleteDisk(ctx, at.zone, id, token)
	}
	switch {
	case absent(err):
		return nil
	case err != nil:
		return p.fail(op, ref.ID, err)
	case why != nil:
		return p.fail(op, ref.ID, why)
	}
	return nil
}

// deleteToken is the same for everybody who asks for the same removal, and another after one that failed: the API would answer
// the old one with the old failure.
func deleteToken(id, failed string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("egress-proxies-operator/delete/"+id+"/"+failed)).String()
}
