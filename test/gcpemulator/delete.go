package gcpemulator

import (
	"net/http"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// find returns the visible instance that a path names. Where the API takes a name it takes the number as well: the
// discovery document's pattern for the parameter is namePattern or [1-9][0-9]{0,19}
// (https://www.googleapis.com/discovery/v1/apis/compute/v1/rest).
func (c *call) find() (*instance, error) {
	if in := c.project.instances[c.zone+"/"+c.resource]; in != nil && in.visible {
		return in, nil
	}
	for _, in := range c.project.instances {
		if in.visible && in.zone == c.zone && numbered(in.pb.GetId(), c.resource) {
			return in, nil
		}
	}
	return nil, errNotFound(c.project.path("zones", c.zone, "instances", c.resource))
}

// getInstance serves https://cloud.google.com/compute/docs/reference/rest/v1/instances/get
func getInstance(c *call) (proto.Message, error) {
	in, err := c.find()
	if err != nil {
		return nil, err
	}
	return in.show(), nil
}

// deleteInstance serves https://cloud.google.com/compute/docs/reference/rest/v1/instances/delete. An instance that is being
// deleted may be deleted again: that gives another operation, which ends with the first.
func deleteInstance(c *call) (proto.Message, error) {
	if op, err := c.remembered(&computepb.Instance{}); op != nil || err != nil {
		return shown(op, c.now), err
	}
	in, err := c.find()
	if err != nil {
		return nil, err
	}
	if in.pb.GetDeletionProtection() {
		return nil, &apiError{
			code: http.StatusBadRequest, reason: "invalid",
			message: "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.",
		}
	}
	op := c.operate("delete", "zones/"+c.zone, in.pb.GetSelfLink(), in.pb.GetId())
	c.remember(&computepb.Instance{}, op)
	if in.deletion != nil {
		in.deletion.also = append(in.deletion.also, op)
		return op.show(c.now), nil
	}
	c.remove(in, op)
	return op.show(c.now), nil
}

// deletion is a deletion on its way.
type deletion struct {
	op     *operation
	also   []*operation // for the same, asked for later
	before string       // the status to go back to if it fails
}

// remove lets an accepted deletion take its course.
func (c *call) remove(in *instance, op *operation) {
	d := &deletion{op: op, before: in.status}
	in.deletion = d
	// https://github.com/piercefreeman/cloud-gpu-reliability/pull/5: an insert overtaken by a deletion ends with 409.
	in.inserting.end(c.now, &Late{Errors: []OperationError{{"OPERATION_CANCELED_BY_USER", "Operation was canceled by user ''."}}})
	graceful := time.Duration(0)
	if in.pb.GetScheduling().GetGracefulShutdown().GetEnabled() && !c.flag("noGracefulShutdown") && in.status == statusRunning {
		graceful = c.opts.Delays.Graceful
		c.become(in, statusPendingStop)
	}
	c.after(c.now, graceful, func(at time.Time) {
		if in.deletion == d {
			c.become(in, statusStopping)
		}
	})
	ends := graceful + c.opts.Delays.Delete + c.fault.ShowAfter
	late := c.fault.Late
	if late != nil && late.After > 0 {
		ends = late.After
	}
	c.after(c.now, ends, func(at time.Time) { c.removed(in, d, late, at) })
}

// removed ends a deletion.
func (c *call) removed(in *instance, d *deletion, late *Late, at time.Time) {
	failed := late != nil && len(late.Errors) > 0
	for _, op := range append([]*operation{d.op}, d.also...) {
		op.end(at, late)
	}
	if in.deletion != d || c.instanceOf(in) == nil {
		return
	}
	in.deletion = nil
	switch {
	case failed && late.Leaves == LeavesDisk:
		c.drop(in, at)
	case failed && d.before == statusRunning:
		c.run(in, at)
	case failed && d.before == statusTerminated:
		c.become(in, d.before)
	case failed:
		c.start(in, at)
	default:
		for _, disk := range c.project.disks {
			if disk.user == in && disk.auto {
				c.dropDisk(disk, at)
			}
		}
		c.drop(in, at)
	}
}
