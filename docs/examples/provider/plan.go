package boxes

import (
	"context"
	"fmt"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Plan decides the ID from the request alone, so that it is the same each time.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	at, err := p.planned(ctx, "plan", req)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// planned is Plan, for Create too: what cannot be planned is not created.
func (p *Provider) planned(ctx context.Context, op string, req provider.CreateRequest) (place, error) {
	permanent := func(format string, args ...any) (place, error) {
		return place{}, provider.Wrap(provider.ErrPermanent, op, p.name, "", fmt.Errorf(format, args...))
	}
	at := place{rack: req.Placement.Zone, name: req.Name}
	if at.rack == "" {
		at.rack = p.config.Racks[0]
	}
	switch {
	case ctx.Err() != nil:
		return at, provider.Wrap(provider.ErrTransient, op, p.name, "", ctx.Err())
	case req.UID == "" || req.Name != provider.NameFromUID(req.UID):
		return permanent("name %q: it does not follow from the UID %q", req.Name, req.UID)
	case !slices.Contains(p.config.Racks, at.rack):
		return permanent("placement.zone %q: want one of the racks %v", at.rack, p.config.Racks)
	case req.Placement.Region != "":
		return permanent("placement.region %q: racks have no region", req.Placement.Region)
	case req.Placement.MachineType != "":
		return permanent("placement.machineType %q: all boxes are alike", req.Placement.MachineType)
	case req.Placement.Image != "":
		return permanent("placement.image %q: boxes bring their own", req.Placement.Image)
	case req.CloudInit != "":
		return permanent("cloudInit: a box has none; remove spec.cloudInit")
	case req.Port < 1 || req.Port > 65535:
		return permanent("port %d: want 1 to 65535", req.Port)
	case req.Credentials == nil:
		// Boxes are on the internet: without credentials everybody could use them.
		_, err := permanent("spec.auth is missing, and anybody could use the proxy")
		return place{}, provider.Wrap(provider.ErrPermanent, op, p.name, "", causeOf(err)).WithReason(provider.ReasonOpenProxyRefused)
	}
	return at, nil
}
