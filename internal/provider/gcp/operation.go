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

// target is the numeric ID of what the creation makes, 0 for none.
func (c *creation) target() uint64 {
	if c == nil {
		return 0
	}
	return c.TargetId
}

// creation finds the insert of an attempt by its token. The API lists several where it had forgotten the token in between.
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
		last = later(last, o)
	}
	return (*creation)(last), nil
}

// later returns which of two operations counts: one that has not ended, or else the one that was begun last. Their times are
// compared as such: what is written depends on the time of the year.
func later(a, b *compute.Operation) *compute.Operation {
	if a == nil || b.Status != operationDone || a.Status == operationDone && createdAt(b.InsertTime).After(createdAt(a.InsertTime)) {
		return b
	}
	return a
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
		last = later(last, o)
	}
	return last, nil
}
