package gcpemulator

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

func (c *call) findDisk() (*disk, error) {
	for _, d := range c.project.disks {
		if d.visible() && d.zone == c.zone && (d.name == c.resource || numbered(d.pb.GetId(), c.resource)) {
			return d, nil
		}
	}
	return nil, errNotFound(c.project.path("zones", c.zone, "disks", c.resource))
}

// getDisk serves https://cloud.google.com/compute/docs/reference/rest/v1/disks/get
func getDisk(c *call) (proto.Message, error) {
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}
	return d.show(), nil
}

// deleteDisk serves https://cloud.google.com/compute/docs/reference/rest/v1/disks/delete. A disk in use is refused.
func deleteDisk(c *call) (proto.Message, error) {
	if op, err := c.remembered(&computepb.Disk{}); op != nil || err != nil {
		return shown(op, c.now), err
	}
	d, err := c.findDisk()
	if err != nil {
		return nil, err
	}
	path := c.project.path("zones", c.zone, "disks", d.name)
	if d.user != nil {
		return nil, &apiError{
			code: http.StatusBadRequest, reason: "resourceInUseByAnotherResource",
			message: "The disk resource '" + path + "' is already being used by '" + d.user.path() + "'",
		}
	}
	op := c.operate("delete", "zones/"+c.zone, d.pb.GetSelfLink(), d.pb.GetId())
	c.remember(&computepb.Disk{}, op)
	late, takes := c.fault.Late, c.opts.Delays.Delete
	if late != nil && late.After > 0 {
		takes = late.After
	}
	d.pb.Status = proto.String("DELETING")
	c.after(c.now, takes, func(at time.Time) {
		op.end(at, late)
		switch {
		case late != nil && len(late.Errors) > 0:
			d.pb.Status = proto.String("READY")
		default:
			c.dropDisk(d, at)
		}
	})
	return op.show(c.now), nil
}

func (c *call) listedDisks(zone string) (items []item) {
	for _, d := range slices.Concat(slices.Collect(maps.Values(c.project.disks)), c.project.goneDisks) {
		if d.zone == zone && d.visible() && c.caughtUp(d.maker.visibleAt) {
			items = append(items, item{
				"zones/" + zone, d.name, d.pb.GetCreationTimestamp(), func() proto.Message { return d.show() },
			})
		}
	}
	return items
}

// listDisks serves https://cloud.google.com/compute/docs/reference/rest/v1/disks/list
func listDisks(c *call) (proto.Message, error) {
	p, err := c.cut(c.listedDisks(c.zone))
	if err != nil {
		return nil, err
	}
	return &computepb.DiskList{
		Kind: proto.String("compute#diskList"), NextPageToken: p.next, Items: resources[*computepb.Disk](p.items),
		SelfLink: proto.String(c.project.link("zones", c.zone, "disks")),
	}, nil
}

// aggregateDisks serves https://cloud.google.com/compute/docs/reference/rest/v1/disks/aggregatedList
func aggregateDisks(c *call) (proto.Message, error) {
	scopes, unreachables, next, err := c.aggregate(c.listedDisks)
	if err != nil {
		return nil, err
	}
	list := &computepb.DiskAggregatedList{
		Kind: proto.String("compute#diskAggregatedList"), NextPageToken: next, Unreachables: unreachables,
		SelfLink: proto.String(c.project.link("aggregated/disks")), Items: map[string]*computepb.DisksScopedList{},
	}
	for _, s := range scopes {
		list.Items[s.name] = &computepb.DisksScopedList{Disks: resources[*computepb.Disk](s.items), Warning: s.warning}
	}
	return list, nil
}
