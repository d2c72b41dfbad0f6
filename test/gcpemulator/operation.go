package gcpemulator

import (
	"fmt"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// operation is a change under way, or one that has ended and is still remembered.
type operation struct {
	pb    *computepb.Operation
	scope string // "zones/…" or "global"
	runAt time.Time
	ended time.Time // zero while in progress
}

// operate makes an operation for the call. id and link are those of the target, whatever becomes of it.
func (c *call) operate(kind, scope, link string, id uint64) *operation {
	op := c.newOperation(c.project, c.now, "operation", kind, scope, link, id)
	if token := c.query.Get("requestId"); token != "" {
		op.pb.ClientOperationId = &token
	}
	return op
}

// newOperation makes an operation that is PENDING. Real names have this form too, with prefix "systemevent" for what
// nobody asked for: https://github.com/googlefonts/fontbakery-dashboard/issues/81
func (e *Emulator) newOperation(p *project, now time.Time, prefix, kind, scope, link string, id uint64) *operation {
	number := e.number()
	name := fmt.Sprintf("%s-%d-%013x-%08x-%08x", prefix, now.UnixMilli(), now.UnixMicro(), uint32(number>>16), uint32(number))
	op := &operation{scope: scope, runAt: now.Add(e.opts.Delays.Pending), pb: &computepb.Operation{
		Kind: proto.String("compute#operation"), Id: &number, Name: &name, OperationType: &kind,
		TargetLink: &link, TargetId: &id, User: proto.String("emulator@" + p.id + ".iam.gserviceaccount.com"),
		InsertTime: proto.String(stamp(now)), SelfLink: proto.String(p.link(scope, "operations", name)),
	}}
	if scope != "global" {
		op.pb.Zone = proto.String(p.link(scope))
	}
	p.operations[name] = op
	return op
}

// show is the operation as the API shows it at that time.
func (op *operation) show(now time.Time) *computepb.Operation {
	pb := proto.CloneOf(op.pb)
	switch {
	case !op.ended.IsZero():
		pb.Status, pb.Progress = computepb.Operation_DONE.Enum(), proto.Int32(100)
		pb.StartTime, pb.EndTime = proto.String(stamp(min2(op.runAt, op.ended))), proto.String(stamp(op.ended))
	case now.Before(op.runAt):
		pb.Status, pb.Progress = computepb.Operation_PENDING.Enum(), proto.Int32(0)
	default:
		pb.Status, pb.Progress = computepb.Operation_RUNNING.Enum(), proto.Int32(20)
		pb.StartTime = proto.String(stamp(op.runAt))
	}
	return pb
}

func min2(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// end ends the operation, unless it has ended: well without errors, badly with them.
func (op *operation) end(at time.Time, late *Late) {
	if op == nil || !op.ended.IsZero() {
		return
	}
	op.ended = at
	if late == nil {
		return
	}
	for _, w := range late.Warnings {
		op.pb.Warnings = append(op.pb.Warnings, &computepb.Warnings{Code: proto.String(w.Code), Message: proto.String(w.Message)})
	}
	if len(late.Errors) == 0 {
		return
	}
	status := late.Status
	if status == 0 {
		status = statusOf(late.Errors[0].Code)
	}
	op.pb.HttpErrorStatusCode = &status
	op.pb.HttpErrorMessage = proto.String(httpMessage(status))
	op.pb.Error = &computepb.Error{}
	for _, e := range late.Errors {
		op.pb.Error.Errors = append(op.pb.Error.Errors, &computepb.Errors{
			Code: proto.String(e.Code), Message: proto.String(e.Message), ErrorDetails: op.details(e.Code),
		})
	}
}

// scoped is what the operations of a call's URL lie in.
func (c *call) scoped() string {
	if c.zone != "" {
		return "zones/" + c.zone
	}
	return "global"
}

// getOperation serves get and wait, for a name or a number.
func getOperation(c *call) (proto.Message, error) {
	for _, op := range c.project.operations {
		if op.scope == c.scoped() && (op.pb.GetName() == c.resource || numbered(op.pb.GetId(), c.resource)) {
			return op.show(c.now), nil
		}
	}
	return nil, errNotFound(c.project.path(c.scoped(), "operations", c.resource))
}
