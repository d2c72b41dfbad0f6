package gcpemulator

import (
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// insertInstance serves https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert
func insertInstance(c *call) (proto.Message, error) {
	want := &computepb.Instance{}
	if err := c.decode(want); err != nil {
		return nil, err
	}
	if op, err := c.remembered(want); op != nil || err != nil {
		return shown(op, c.now), err
	}
	asked := proto.Clone(want) // validation fills in what the request left out
	cpus, err := c.checkInstance(want)
	if err != nil {
		return nil, err
	}
	in := &instance{project: c.project, zone: c.zone, name: want.GetName(), pb: want, cpus: cpus}
	if err := c.checkNames(in); err != nil {
		return nil, err
	}
	late := c.fault.Late
	if err := c.checkQuota(in); err != nil {
		if !c.opts.QuotaLate {
			return nil, err
		}
		late = &Late{Errors: []OperationError{{Code: "QUOTA_EXCEEDED", Message: err.message}}}
	}
	c.furnish(in)
	if !c.giveAddresses(in) && late == nil {
		late = &Late{Errors: []OperationError{{Code: "IP_SPACE_EXHAUSTED", Message: "The pool of external addresses is exhausted."}}}
	}
	op := c.operate("insert", "zones/"+c.zone, in.pb.GetSelfLink(), in.pb.GetId())
	in.inserting = op
	c.project.instances[in.key()] = in
	c.addDisks(in)
	c.remember(asked, op)
	c.schedule(in, op, late)
	return op.show(c.now), nil
}

// schedule lets an accepted insert take its course.
func (c *call) schedule(in *instance, op *operation, late *Late) {
	show := c.opts.Delays.Show + c.fault.ShowAfter
	ends := max(c.opts.Delays.Insert, show)
	c.after(c.now, show, func(at time.Time) { c.appear(in, at) })
	if late == nil || len(late.Errors) == 0 {
		c.after(c.now, ends, func(at time.Time) { op.end(at, late) })
		return
	}
	if late.After > 0 {
		ends = late.After
	}
	c.after(c.now, ends, func(at time.Time) {
		if !op.ended.IsZero() || c.instanceOf(in) == nil {
			return
		}
		op.end(at, late)
		switch late.Leaves {
		case LeavesInstance:
			in.visible, in.visibleAt = true, at
			c.become(in, statusTerminated)
		case LeavesDisk:
			c.drop(in, at)
		case LeavesNothing:
			c.dropAll(in, at)
		}
	})
}

func (c *call) instanceOf(in *instance) *instance {
	if c.project.instances[in.key()] == in {
		return in
	}
	return nil
}

func shown(op *operation, now time.Time) proto.Message {
	if op == nil {
		return nil
	}
	return op.show(now)
}

// checkNames refuses names in use. A name is in use until the deletion of what bears it has ended.
func (c *call) checkNames(in *instance) error {
	if c.project.instances[in.key()] != nil {
		return errExists(in.path())
	}
	for i, attached := range in.pb.GetDisks() {
		if attached.GetInitializeParams() == nil {
			continue
		}
		name := diskName(in, i, attached)
		if c.project.disks[c.zone+"/"+name] != nil {
			return errExists(c.project.path("zones", c.zone, "disks", name))
		}
	}
	return nil
}
