package gcp

import (
	"context"
	"fmt"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// explain says of a VM that is stopped why, where that can be found out: its creation failed and left it, or it was preempted.
// What cannot be read is logged, and the VM is stopped whatever the reason.
func (p *Provider) explain(ctx context.Context, at place, vm *compute.Instance, inst *provider.Instance) {
	if inst.State != provider.StateStopped {
		return
	}
	made := provider.Ref{ID: inst.ID, UID: inst.Marks.UID, Attempt: inst.Marks.Attempt}
	if c, err := p.creation(ctx, at, made); err == nil && identityOf(c.target()) == inst.Identity {
		if err := p.failure(made, c); err != nil {
			inst.State, inst.Left, inst.Err, inst.Message = provider.StateFailed, true, err, provider.Cause(err)
			return
		}
	}
	if vm.Scheduling != nil && vm.Scheduling.ProvisioningModel == "SPOT" && p.preempted(ctx, at.zone, inst.Identity) {
		inst.Message = "the spot VM was preempted"
	}
}

// preempted reports whether an operation says so, which nobody has asked for.
func (p *Provider) preempted(ctx context.Context, zone, id string) bool {
	const kind = "compute.instances.preempted"
	all, err := p.api.operations(ctx, zone, fmt.Sprintf("targetId=%s AND operationType=%q", id, kind))
	for _, o := range all {
		if err == nil && o.OperationType == kind && identityOf(o.TargetId) == id {
			return true
		}
	}
	return false
}
