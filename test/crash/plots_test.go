package crash

import (
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// plot is what happens to one Proxy while two operators look after it.
type plot struct {
	name string
	// settled: the first operator has brought the Proxy up before the plot begins.
	settled bool
	steps   []turn
	// renewed: there is another instance in the end.
	renewed bool
	// deleted: the Proxy is gone in the end.
	deleted bool
	// restored: the record was falsified, so a second instance may appear for a while.
	restored bool
	// overdue: a process may be paused between its last check and its call, so that calls outlive their deadlines. Then
	// there may be a second instance under another ID for a while.
	overdue bool

	// deep is where more than one switch or one oddity is explored.
	deep []depth
	// least is how many schedules there must be: fewer would mean that the plot shows less than it says.
	least int
}

// turn is one step of a plot.
type turn struct {
	name string
	do   func(*world)
	// anytime: at any place of the schedule, not only as soon as the plot begins.
	anytime bool
}

// depth is how far schedules are explored on one kind of backend.
type depth struct {
	kind    providertest.Kind
	delayed bool
	allowed allowance
}

// plots are short enough to be explored.
func plots() []plot {
	gcp, ec2, name := providertest.KindGCP, providertest.KindEC2, providertest.KindName
	two, odd := allowance{switches: 2}, allowance{switches: 1, oddities: 1}
	return []plot{
		{name: "create", least: 1300, deep: []depth{{gcp, false, two}, {ec2, false, two}, {name, false, two}, {gcp, false, odd}}},
		{name: "delete during create", deleted: true, steps: []turn{{"delete", remove, true}}, least: 3000, deep: []depth{{gcp, false, two}}},
		{name: "zone edit during create", steps: []turn{{"edit the zone", toZone("zone-b"), true}}, least: 1400},
		{name: "zone edit during create, calls outlive their deadline", overdue: true, least: 1400,
			steps: []turn{{"edit the zone", toZone("zone-b"), true}}},
		{name: "port change", settled: true, renewed: true, steps: []turn{{"edit the port", toPort(8080), false}}, least: 650,
			deep: []depth{{gcp, false, two}}},
		{name: "zone change", settled: true, renewed: true, steps: []turn{{"edit the zone", toZone("zone-b"), false}}, least: 650,
			deep: []depth{{name, false, two}}},
		{name: "replace asked", settled: true, renewed: true, steps: []turn{{"ask for a new instance", ask("1"), false}}, least: 400},
		{name: "the instance stops", settled: true, renewed: true, steps: []turn{{"the instance stops", stopInstance, false}}, least: 600,
			deep: []depth{{ec2, false, two}}},
		{name: "restore of an empty status", settled: true, restored: true, least: 600,
			steps: []turn{{"restore an empty status", restoreStatus(v1alpha1.ProxyStatus{}), false}},
			deep:  []depth{{gcp, false, two}, {ec2, false, two}, {name, false, two}, {gcp, false, odd}}},
		{name: "restore of an empty status, then delete", settled: true, restored: true, deleted: true, least: 300,
			steps: []turn{{"restore an empty status", restoreStatus(v1alpha1.ProxyStatus{}), false}, {"delete", remove, false}},
			deep:  []depth{{gcp, false, two}}},
		{name: "delete", settled: true, deleted: true, steps: []turn{{"delete", remove, false}}, least: 700,
			deep: []depth{{gcp, false, two}, {ec2, false, two}, {name, false, two}, {gcp, false, odd}}},
	}
}

// longPlots are for random schedules alone.
func longPlots() []plot {
	toB, toA := turn{"edit the zone to b", toZone("zone-b"), true}, turn{"edit the zone to a", toZone("zone-a"), true}
	port := turn{"edit the port", toPort(8080), true}
	asked, gone := turn{"ask for a new instance", ask("1"), true}, turn{"delete", remove, true}
	stops := turn{"the instance stops", stopInstance, true}
	return []plot{
		{name: "zone to b and back", steps: []turn{toB, toA}},
		{name: "zone to b and back, settled", settled: true, steps: []turn{toB, toA}},
		{name: "zone to b and back, calls outlive their deadline", settled: true, overdue: true, steps: []turn{toB, toA}},
		{name: "asked twice", settled: true, steps: []turn{asked, {"ask for another new instance", ask("2"), true}}},
		{name: "many changes", steps: []turn{port, toB, asked, stops, toA}},
		{name: "many changes, then delete", settled: true, deleted: true, steps: []turn{stops, port, toB, asked, gone}},
	}
}

func (p plot) anytime() bool {
	return slices.ContainsFunc(p.steps, func(s turn) bool { return s.anytime })
}

// cells returns everything that is explored exhaustively: one switch, or one oddity, on each kind of backend, and deeper
// where the plot says so. Left out is what multiplies most: steps that may come at any time stay with effects at once, and
// edits of that kind with the backends that remember most and least, of which oddities, as with delayed effects, are left
// to the latter.
func (p plot) cells() (all []cell) {
	for _, kind := range providertest.Kinds() {
		for _, vis := range delays() {
			delayed := vis.delay > 0
			if p.anytime() && (delayed || kind == providertest.KindEC2 && !p.deleted) {
				continue
			}
			depths := p.deeper(kind, delayed)
			for _, a := range []allowance{{switches: 1}, {oddities: 1}} {
				if a.oddities > 0 && kind != providertest.KindName && (p.anytime() || delayed) {
					continue
				}
				if !slices.ContainsFunc(depths, func(d allowance) bool { return d.covers(a) }) {
					depths = append(depths, a)
				}
			}
			for _, a := range depths {
				all = append(all, cell{p, kind, vis, a})
			}
		}
	}
	return all
}

func (p plot) deeper(kind providertest.Kind, delayed bool) (as []allowance) {
	for _, d := range p.deep {
		if d.kind == kind && d.delayed == delayed {
			as = append(as, d.allowed)
		}
	}
	return as
}
