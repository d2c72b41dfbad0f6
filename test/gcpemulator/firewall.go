package gcpemulator

import (
	"net/http"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// firewall is a rule of a network. Changes take effect when their operation ends.
type firewall struct {
	pb       *computepb.Firewall
	visible  bool
	deleting bool
}

func (c *call) firewallPath(name string) string { return c.project.path("global", "firewalls", name) }

func (c *call) findFirewall() (*firewall, error) {
	for name, f := range c.project.firewalls {
		if f.visible && (name == c.resource || numbered(f.pb.GetId(), c.resource)) {
			return f, nil
		}
	}
	return nil, errNotFound(c.firewallPath(c.resource))
}

// getFirewall serves https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/get
func getFirewall(c *call) (proto.Message, error) {
	f, err := c.findFirewall()
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(f.pb), nil
}

// listFirewalls serves https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/list
func listFirewalls(c *call) (proto.Message, error) {
	var items []item
	for name, f := range c.project.firewalls {
		if f.visible {
			items = append(items, item{"global", name, f.pb.GetCreationTimestamp(), func() proto.Message { return proto.CloneOf(f.pb) }})
		}
	}
	p, err := c.cut(items)
	if err != nil {
		return nil, err
	}
	return &computepb.FirewallList{
		Kind: proto.String("compute#firewallList"), NextPageToken: p.next, Items: resources[*computepb.Firewall](p.items),
		SelfLink: proto.String(c.project.link("global/firewalls")),
	}, nil
}

// insertFirewall serves https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/insert
func insertFirewall(c *call) (proto.Message, error) {
	want := &computepb.Firewall{}
	if err := c.decode(want); err != nil {
		return nil, err
	}
	if op, err := c.remembered(want); op != nil || err != nil {
		return shown(op, c.now), err
	}
	if err := checkFirewall(want); err != nil {
		return nil, err
	}
	name := want.GetName()
	if c.project.firewalls[name] != nil {
		return nil, errExists(c.firewallPath(name))
	}
	asked := proto.Clone(want)
	f := &firewall{pb: want}
	c.project.firewalls[name] = f
	want.Id, want.Kind = proto.Uint64(c.number()), proto.String("compute#firewall")
	want.CreationTimestamp, want.SelfLink = proto.String(stamp(c.now)), proto.String(base+c.firewallPath(name))
	c.fillFirewall(want)
	return c.change("insert", f, asked, func(ok bool) {
		if ok {
			f.visible = true
		} else {
			delete(c.project.firewalls, name)
		}
	}), nil
}

// changeFirewall serves patch and update, which replaces everything:
// https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/patch and
// https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/update
func changeFirewall(c *call) (proto.Message, error) {
	want := &computepb.Firewall{}
	if err := c.decode(want); err != nil {
		return nil, err
	}
	if op, err := c.remembered(want); op != nil || err != nil {
		return shown(op, c.now), err
	}
	f, err := c.findFirewall()
	if err != nil {
		return nil, err
	}
	next := proto.CloneOf(f.pb)
	if c.name == "firewalls.update" {
		next = &computepb.Firewall{Id: f.pb.Id, Kind: f.pb.Kind, CreationTimestamp: f.pb.CreationTimestamp, SelfLink: f.pb.SelfLink}
		next.Name = f.pb.Name
	}
	overlay(next, want)
	if next.GetName() != f.pb.GetName() {
		return nil, errInvalid("resource.name", want.GetName(), "Names cannot be changed.")
	}
	if err := checkFirewall(next); err != nil {
		return nil, err
	}
	c.fillFirewall(next)
	return c.change(c.name[len("firewalls."):], f, want, func(ok bool) {
		if ok {
			f.pb = next
		}
	}), nil
}

// deleteFirewall serves https://cloud.google.com/compute/docs/reference/rest/v1/firewalls/delete
func deleteFirewall(c *call) (proto.Message, error) {
	if op, err := c.remembered(&computepb.Firewall{}); op != nil || err != nil {
		return shown(op, c.now), err
	}
	f, err := c.findFirewall()
	if err != nil {
		return nil, err
	}
	if f.deleting {
		return nil, &apiError{
			code: http.StatusBadRequest, reason: "resourceNotReady",
			message: "The resource '" + c.firewallPath(f.pb.GetName()) + "' is not ready",
		}
	}
	f.deleting = true
	return c.change("delete", f, &computepb.Firewall{}, func(ok bool) {
		f.deleting = false
		if ok {
			delete(c.project.firewalls, f.pb.GetName())
		}
	}), nil
}

// change makes the operation of an accepted change and lets it take effect when that ends.
func (c *call) change(kind string, f *firewall, body proto.Message, effect func(ok bool)) proto.Message {
	op := c.operate(kind, "global", f.pb.GetSelfLink(), f.pb.GetId())
	c.remember(body, op)
	late := c.fault.Late
	takes := c.opts.Delays.Global + c.fault.ShowAfter
	if late != nil && late.After > 0 {
		takes = late.After
	}
	c.after(c.now, takes, func(at time.Time) {
		op.end(at, late)
		effect(late == nil || len(late.Errors) == 0)
	})
	return op.show(c.now)
}
