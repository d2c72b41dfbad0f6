package gcpemulator

import (
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// Unreachable is how a zone that cannot be reached shows in aggregated lists. All calls to the zone itself answer 503.
type Unreachable int

// The ways. The reference recommends returnPartialSuccess "to prevent failure", and has had the per-scope warning for
// longer than that: https://cloud.google.com/compute/docs/reference/rest/v1/instances/aggregatedList
const (
	// Reachable is a zone like any other.
	Reachable Unreachable = iota
	// ScopeWarns shows the zone's scope without resources and with the warning UNREACHABLE, and the zone among the
	// unreachables, whether the call allows partial success or not.
	ScopeWarns
	// ScopeFails fails the whole list with 503 unless the call allows partial success; then as ScopeWarns.
	ScopeFails
	// ScopeMissing shows the zone among the unreachables only.
	ScopeMissing
)

// scope is one zone of an aggregated list.
type scope struct {
	name    string
	items   []item
	warning *computepb.Warning
}

// aggregate distributes a page over all zones.
func (c *call) aggregate(all func(zone string) []item) (scopes []scope, unreachables []string, next *string, err error) {
	zones := slices.Sorted(maps.Keys(c.opts.Zones))
	var items []item
	for _, zone := range zones {
		switch how := c.project.unreached[zone]; {
		case how == ScopeFails && !c.flag("returnPartialSuccess"):
			return nil, nil, nil, errUnreachable(zone)
		case how == Reachable:
			items = append(items, all(zone)...)
		default:
			unreachables = append(unreachables, c.project.link("zones", zone))
		}
	}
	p, err := c.cut(items)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, zone := range zones {
		s := scope{name: "zones/" + zone}
		for _, i := range p.items {
			if i.scope == s.name {
				s.items = append(s.items, i)
			}
		}
		switch how := c.project.unreached[zone]; {
		case how == ScopeMissing:
			continue
		case how != Reachable:
			s.warning = warning("UNREACHABLE", "The scope '"+s.name+"' could not be reached.", s.name)
		case len(s.items) == 0:
			s.warning = warning("NO_RESULTS_ON_PAGE", "There are no results for scope '"+s.name+"' on this page.", s.name)
		}
		scopes = append(scopes, s)
	}
	return scopes, unreachables, p.next, nil
}

func warning(code, message, scope string) *computepb.Warning {
	return &computepb.Warning{
		Code: &code, Message: &message, Data: []*computepb.Data{{Key: proto.String("scope"), Value: &scope}},
	}
}

// listed are the instances of a zone that a list may show, given how far it lags behind.
func (c *call) listed(zone string) (items []item) {
	for _, in := range slices.Concat(slices.Collect(maps.Values(c.project.instances)), c.project.gone) {
		if in.zone == zone && in.visible && c.caughtUp(in.visibleAt) {
			items = append(items, item{
				"zones/" + zone, in.name, in.pb.GetCreationTimestamp(), func() proto.Message { return in.show() },
			})
		}
	}
	return items
}

// caughtUp says whether a list shows what has been there since then. Only whether things are listed lags, not what the list
// says of them.
func (c *call) caughtUp(since time.Time) bool {
	return c.listLag == 0 || !since.Add(c.listLag).After(c.now)
}

// listInstances serves https://cloud.google.com/compute/docs/reference/rest/v1/instances/list
func listInstances(c *call) (proto.Message, error) {
	p, err := c.cut(c.listed(c.zone))
	if err != nil {
		return nil, err
	}
	list := &computepb.InstanceList{Kind: proto.String("compute#instanceList"), NextPageToken: p.next,
		SelfLink: proto.String(c.project.link("zones", c.zone, "instances"))}
	list.Items = resources[*computepb.Instance](p.items)
	return list, nil
}

// aggregateInstances serves https://cloud.google.com/compute/docs/reference/rest/v1/instances/aggregatedList
func aggregateInstances(c *call) (proto.Message, error) {
	scopes, unreachables, next, err := c.aggregate(c.listed)
	if err != nil {
		return nil, err
	}
	list := &computepb.InstanceAggregatedList{
		Kind: proto.String("compute#instanceAggregatedList"), NextPageToken: next, Unreachables: unreachables,
		SelfLink: proto.String(c.project.link("aggregated/instances")), Items: map[string]*computepb.InstancesScopedList{},
	}
	for _, s := range scopes {
		list.Items[s.name] = &computepb.InstancesScopedList{Instances: resources[*computepb.Instance](s.items), Warning: s.warning}
	}
	return list, nil
}

// resources are those of a page, shown.
func resources[T proto.Message](items []item) (all []T) {
	for _, i := range items {
		if r, ok := i.resource().(T); ok {
			all = append(all, r)
		}
	}
	return all
}
