package gcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const operationDone = "DONE"

// creation is an attempt's insert as the API remembers it. Nil is that it knows of none.
type creation compute.Operation

func (c *creation) running() bool { return c != nil && c.Status != operationDone }
func (c *creation) ended() bool   { return c != nil && c.Status == operationDone }
func (c *creation) failed() bool  { return c.ended() && failed((*compute.Operation)(c)) != nil }

// creation finds the insert of an attempt by its token. Where the API lists several, the one that ended last counts.
func (p *Provider) creation(ctx context.Context, at place, ref provider.Ref) (*creation, error) {
	token := provider.CreateToken(ref.UID, ref.Attempt)
	all, err := p.api.operations(ctx, at.zone, fmt.Sprintf("clientOperationId=%q", token))
	if err != nil {
		return nil, err
	}
	var last *compute.Operation
	for _, o := range all {
		if o.ClientOperationId != token || o.OperationType != "insert" {
			continue // whoever does not know the filter lists everything
		}
		if last == nil || o.Status != operationDone || last.Status == operationDone && o.InsertTime > last.InsertTime {
			last = o
		}
	}
	return (*creation)(last), nil
}

// failure returns why a creation failed, nil where it did not.
func (p *Provider) failure(ref provider.Ref, c *creation) error {
	if !c.ended() {
		return nil
	}
	if err := failed((*compute.Operation)(c)); err != nil {
		return p.fail("create", ref.ID, err)
	}
	return nil
}

// operationError is why an operation failed.
type operationError struct {
	// codes of all errors, sorted, such as QUOTA_EXCEEDED.
	codes []string
	// status is the HTTP status that a synchronous call would have had; 0 where the operation has none.
	status int
	text   string
}

func (e *operationError) Error() string { return e.text }

// failed returns the errors of an operation that is done, nil where it has none. Warnings are none.
func failed(o *compute.Operation) error {
	if o.Error == nil && o.HttpErrorStatusCode < 400 {
		return nil
	}
	e := &operationError{status: int(o.HttpErrorStatusCode)}
	var said []string
	if o.Error != nil {
		for _, one := range o.Error.Errors {
			e.codes = append(e.codes, one.Code)
			said = append(said, one.Code+": "+one.Message)
		}
	}
	if len(said) == 0 {
		said = []string{"the API gives no reason"}
	}
	slices.Sort(e.codes)
	slices.Sort(said)
	e.text = strings.Join(said, "; ")
	return e
}

// deletion returns the last deletion of the thing with that numeric ID, nil where the API knows of none.
func (p *Provider) deletion(ctx context.Context, zone, id string) (*compute.Operation, error) {
	all, err := p.api.operations(ctx, zone, fmt.Sprintf("targetId=%s AND operationType=%q", id, "delete"))
	if err != nil {
		return nil, err
	}
	var last *compute.Operation
	for _, o := range all {
		if identityOf(o.TargetId) != id || o.OperationType != "delete" {
			continue
		}
		if last == nil || o.Status != operationDone || last.Status == operationDone && createdAt(o.InsertTime).After(createdAt(last.InsertTime)) {
			last = o
		}
	}
	return last, nil
}

// explain adds to a VM that has been stopped why, where that can be found out.
func (p *Provider) explain(ctx context.Context, at place, vm *compute.Instance, inst *provider.Instance) {
	if inst.State != provider.StateStopped || vm.Scheduling == nil || vm.Scheduling.ProvisioningModel != "SPOT" {
		return
	}
	id := identityOf(vm.Id)
	const preempted = "compute.instances.preempted"
	all, err := p.api.operations(ctx, at.zone, fmt.Sprintf("targetId=%s AND operationType=%q", id, preempted))
	if err != nil {
		return // it is logged, and the VM is stopped whatever the reason
	}
	for _, o := range all {
		if o.OperationType == preempted && identityOf(o.TargetId) == id {
			inst.Message = "the spot VM was preempted"
		}
	}
}
