package boxes

import (
	"context"
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// ListByTag reads all racks, every page of each. A rack that cannot be read is named, and nothing is concluded about it.
func (p *Provider) ListByTag(ctx context.Context) (provider.Listing, error) {
	const op = "list"
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	var out provider.Listing
	var last error
	for _, rack := range p.config.Racks {
		found, err := p.rack(ctx, rack)
		if errors.Is(provider.Class(p.fail(op, "", err)), provider.ErrDenied) {
			return provider.Listing{}, p.fail(op, "", err) // it holds for all racks
		}
		if err != nil {
			last = err
			out.Unread = append(out.Unread, "racks/"+rack)
			continue
		}
		out.Instances = append(out.Instances, found...)
	}
	if len(out.Unread) == len(p.config.Racks) {
		return provider.Listing{}, p.fail(op, "", last)
	}
	return out, nil
}

// rack returns this installation's instances in one rack. Half a list would look as if the other half were gone.
func (p *Provider) rack(ctx context.Context, rack string) ([]provider.Instance, error) {
	var out []provider.Instance
	after := ""
	for {
		page, err := p.api.list(ctx, rack, after)
		if err != nil {
			return nil, err
		}
		for _, b := range page.Boxes {
			if marks, ok := provider.MarksFromMap(b.Tags); ok && p.owner.Owns(marks) {
				out = append(out, p.instance(place{rack, b.Name}, b))
			}
		}
		if page.Next == "" {
			return out, nil
		}
		after = page.Next
	}
}
