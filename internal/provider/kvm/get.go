package kvm

import (
	"context"
	"errors"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	nothingYet     = "nothing is to be seen yet"
	noAddress      = "the guest has no address yet"
	lostAddress    = "the domain runs, and no address of it is known any more"
	unaskedAddress = "the domain runs, and its address could not be asked for"
	domainGone     = "the domain is gone, volumes of it are left"
)

// bootLimit is how old a domain may get without an address that is still about to come up. One that has run for longer has
// lost its address, which is no reason to take it for never made.
const bootLimit = 30 * time.Minute

// Get reads the domain and, where there is none of ours, the names of the pool's volumes.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	ctx = p.calling(ctx, "get", ref.ID)
	inst, err := p.get(ctx, ref)
	saw(ctx, inst)
	outcome(ctx, err)
	return inst, err
}

func (p *Provider) get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	const op = "get"
	at, h, err := p.placeOf(op, ref.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	// The clock is read first: a window that passes in between must not turn "not there yet" into a proof.
	passed := p.window.Passed(ref)
	f, err := p.look(ctx, h, at, ref.UID, ref.Attempt)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	waiting := &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: nothingYet}
	var strange error
	if f != nil {
		if strange = p.strange(h, f, ref.UID); strange == nil {
			if !passed && f.marks.Attempt == ref.Attempt && halfMade(f.power) {
				// A creation that got half way, or is on its way. Repeated, it gets to its end.
				return waiting, nil
			}
			inst, err := p.instance(ctx, h, f, newLookup(ctx, h, &p.config, sourceLimit))
			if err != nil {
				return nil, p.fail(op, ref.ID, err)
			}
			inst.ID = ref.ID
			return inst, nil
		}
	}
	rests, err := p.rests(ctx, h, ref.UID)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	if strange != nil && p.runsOn(f, ref) {
		rests = nil // they are not what is left of something
	}
	for _, v := range rests {
		if passed || v.attempt != ref.Attempt {
			inst := p.rest(at, v)
			return &inst, nil
		}
	}
	switch {
	case strange != nil:
		e := provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, strange)
		if !passed {
			e = e.WithReason(provider.ReasonAbsenceUnproven)
		}
		return nil, e
	case !passed:
		return waiting, nil
	}
	return nil, provider.Wrap(provider.ErrNotFound, op, p.name, ref.ID, nil)
}

// halfMade reports whether a domain is off and may never have been on.
func halfMade(p power) bool {
	return p.state == libvirt.DomainShutoff && p.reason == neverStarted
}

// instance describes a domain of ours.
func (p *Provider) instance(ctx context.Context, h *host, f *found, addresses *lookup) (*provider.Instance, error) {
	c := stateOf(f.power)
	inst := &provider.Instance{
		ID: place{h.config.Name, provider.NameFromUID(f.marks.UID)}.String(), State: c.state, Message: c.message,
		Marks: f.marks, Identity: f.uuid().String(), CreatedAt: f.record.created(),
	}
	switch c.state {
	case provider.StateFailed:
		inst.Left = true
		inst.Err = provider.Wrap(c.class, "create", p.name, inst.ID, errors.New(c.message))
	case provider.StateRunning:
		ip, err := addresses.of(ctx, f)
		if errors.Is(err, errUnasked) {
			inst.State, inst.Message = provider.StateUnknown, unaskedAddress
			return inst, nil
		}
		if err != nil {
			return nil, err
		}
		port := f.record.port()
		switch {
		case ip.IsValid() && port > 0:
			inst.IP, inst.Port = ip.String(), port
		case inst.CreatedAt.IsZero() || p.window.Clock.Since(inst.CreatedAt) < bootLimit:
			inst.State, inst.Message = provider.StateProvisioning, noAddress
		default:
			inst.State, inst.Message = provider.StateUnknown, lostAddress
		}
	default:
	}
	return inst, nil
}

// rest describes an instance of which volumes alone are left. They say whose they are, but not all that a domain says.
func (p *Provider) rest(at place, v volumes) provider.Instance {
	return provider.Instance{
		ID: at.String(), State: provider.StateTerminated, Message: domainGone,
		Marks:    provider.Marks{UID: v.uid, Installation: p.owner.Installation, Cluster: p.owner.Cluster, Attempt: v.attempt},
		Identity: domainUUID(p.owner, v.uid, v.attempt).String(),
	}
}
