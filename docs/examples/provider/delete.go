package boxes

import (
	"context"
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Delete removes the box that it has seen with the attempt's marks, by a serial number that is never used twice. Whatever takes
// its place meanwhile is not hit.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	const op = "delete"
	at, err := p.scope(op, ref.ID)
	if err != nil {
		return err
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	b, err := p.api.get(ctx, at)
	if errors.Is(err, errNoBox) {
		return nil
	}
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	marks, _ := provider.MarksFromMap(b.Tags)
	if err := p.owner.Foreign(marks, ref.UID); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	if marks.Attempt != ref.Attempt || ref.Identity != "" && ref.Identity != b.Serial {
		return nil // ours is absent
	}
	if b.Status == "removing" {
		return nil
	}
	err = p.api.remove(ctx, at, b.Serial)
	if errors.Is(err, errNoBox) || errors.Is(err, errOtherSerial) {
		return nil
	}
	return p.fail(op, ref.ID, err)
}
