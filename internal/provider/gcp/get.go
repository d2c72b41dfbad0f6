package gcp

import (
	"context"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

const (
	nothingYet = "nothing is to be seen yet"
	inProgress = "the creation is in progress"
	diskLeft   = "the VM is gone, its disk is left"
)

// Get reads the VM and, where it is not there, how its creation went.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	ctx = p.calling(ctx, "get", ref.ID)
	inst, err := p.get(ctx, ref)
	saw(ctx, inst)
	outcome(ctx, err)
	return inst, err
}

func (p *Provider) get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	const op = "get"
	at, err := p.placeOf(op, ref.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	// The clock is read first: a window that passes in between must not turn "not there yet" into a proof.
	passed := p.window.Passed(ref)
	vm, err := p.api.instance(ctx, at)
	if err == nil && p.owner.Foreign(marksOf(vm.Labels, vm.Description), ref.UID) == nil {
		inst := p.ofVM(vm)
		p.explain(ctx, at, vm, &inst)
		return &inst, nil
	}
	if err != nil && !absent(err) {
		return p.unread(ctx, at, ref, passed, err)
	}
	// Something else, or nothing: what counts is read again, and after how the creation went.
	creation, err := p.creation(ctx, at, ref)
	if err != nil {
		return p.unread(ctx, at, ref, passed, err)
	}
	proven := passed || p.decided(ref, creation)
	found, err := p.look(ctx, at, ref.UID)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	if !found.empty() {
		return p.found(ref, found, creation, proven)
	}
	if creation.failed() {
		// A creation that a removal has cut short ends with an error, too.
		removal, err := p.deletion(ctx, at.zone, identityOf(creation.TargetId))
		if err != nil {
			return nil, p.fail(op, ref.ID, err)
		}
		if removal != nil {
			creation = nil
		}
	}
	return p.nothing(ref, creation, proven)
}

// unread judges that a place cannot be read. Where there is no such zone, nothing is or will be in it.
func (p *Provider) unread(ctx context.Context, at place, ref provider.Ref, passed bool, err error) (*provider.Instance, error) {
	if err = p.inZone(ctx, at.zone, err); nowhere(err) {
		return p.nothing(ref, nil, passed)
	}
	return nil, p.fail("get", ref.ID, err)
}

// found judges what stands there.
func (p *Provider) found(ref provider.Ref, found parts, creation *creation, proven bool) (*provider.Instance, error) {
	if strange := p.owner.Foreign(found.marks(), ref.UID); strange != nil {
		e := provider.Wrap(provider.ErrConflict, "get", p.name, ref.ID, strange)
		if !proven {
			e = e.WithReason(provider.ReasonAbsenceUnproven)
		}
		return nil, e
	}
	if found.vm != nil {
		inst := p.ofVM(found.vm)
		return &inst, nil
	}
	inst := p.ofDisk(found.disk)
	mine := inst.Marks.Attempt == ref.Attempt && inst.State != provider.StateDeleting
	// The disk is made before the VM, by a call that may have arrived since the operations were read.
	switch {
	case mine && creation.running():
		inst.State, inst.Message = provider.StateProvisioning, inProgress
	case mine && !proven:
		inst.State, inst.Message = provider.StateProvisioning, nothingYet
	case mine:
		if err := p.failure(ref, creation); err != nil {
			inst.State, inst.Left, inst.Err, inst.Message = provider.StateFailed, true, err, provider.Cause(err)
		}
	}
	return &inst, nil
}

// nothing judges that nothing stands there.
func (p *Provider) nothing(ref provider.Ref, creation *creation, proven bool) (*provider.Instance, error) {
	switch {
	case creation.running():
		// Marks are what its token stands for.
		return &provider.Instance{
			ID: ref.ID, State: provider.StateProvisioning, Message: inProgress, Marks: provider.Marks{UID: ref.UID, Attempt: ref.Attempt},
		}, nil
	case !proven:
		return &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: nothingYet}, nil
	}
	if err := p.failure(ref, creation); err != nil {
		return &provider.Instance{
			ID: ref.ID, State: provider.StateFailed, Err: err, Message: provider.Cause(err),
			Marks: provider.Marks{UID: ref.UID, Attempt: ref.Attempt},
		}, nil
	}
	return nil, provider.Wrap(provider.ErrNotFound, "get", p.name, ref.ID, nil)
}

// decided reports whether a creation has ended that stands for every call which can still be sent under ref: the API knows the
// token again until the last of them has arrived. A record that was restored can be younger than what its token stands for.
func (p *Provider) decided(ref provider.Ref, c *creation) bool {
	if !c.ended() {
		return false
	}
	last := ref.RequestedAt.Add(p.window.CallTimeout + p.window.Visibility + p.window.Skew)
	return createdAt(c.InsertTime).Add(memory).After(last)
}

// ofVM describes an instance by its VM.
func (p *Provider) ofVM(vm *compute.Instance) provider.Instance {
	inst := provider.Instance{
		ID: place{p.config.Project, lastOf(vm.Zone), vm.Name}.String(), Marks: marksOf(vm.Labels, vm.Description),
		Identity: identityOf(vm.Id), CreatedAt: createdAt(vm.CreationTimestamp),
	}
	s := p.stateOf(vm)
	inst.State, inst.Message = s.state, message.Clean(s.message)
	if s.state == provider.StateRunning {
		inst.IP, inst.Port, inst.ExitAddress = s.ip, portOf(vm.Labels), s.exit
	}
	return inst
}

// ofDisk describes an instance of which only the disk is left.
func (p *Provider) ofDisk(d *compute.Disk) provider.Instance {
	state := provider.StateTerminated
	if d.Status == "DELETING" {
		state = provider.StateDeleting
	}
	return provider.Instance{
		ID: place{p.config.Project, lastOf(d.Zone), d.Name}.String(), Marks: marksOf(d.Labels, d.Description),
		Identity: identityOf(d.Id), CreatedAt: createdAt(d.CreationTimestamp), State: state, Message: diskLeft,
	}
}
