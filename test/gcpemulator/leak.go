package gcpemulator

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Leftover is a resource that has not been removed.
type Leftover struct {
	// ID is the path: projects/…/zones/…/instances/…, …/disks/… or projects/…/global/firewalls/….
	ID     string
	Number uint64
	Status string
	Labels map[string]string
	// Pending: accepted, but not visible to any call yet. Deleting: a deletion is in flight.
	Pending, Deleting bool
}

func (l Leftover) String() string {
	return fmt.Sprintf("%s (%d, %s, pending %v, deleting %v)", l.ID, l.Number, l.Status, l.Pending, l.Deleting)
}

// Leftovers is the leak probe: everything there is in all projects, visible or not, sorted by ID. It bypasses faults and
// zones that cannot be reached.
func (e *Emulator) Leftovers() (left []Leftover) {
	e.locked(func(time.Time) {
		for _, p := range e.projects {
			left = append(left, p.leftovers()...)
		}
	})
	slices.SortFunc(left, func(a, b Leftover) int { return cmp.Compare(a.ID, b.ID) })
	return left
}

func (p *project) leftovers() (left []Leftover) {
	for _, in := range p.instances {
		left = append(left, Leftover{
			ID: in.path(), Number: in.pb.GetId(), Status: in.status, Labels: in.pb.GetLabels(),
			Pending: !in.visible, Deleting: in.deletion != nil,
		})
	}
	for _, d := range p.disks {
		left = append(left, Leftover{
			ID: p.path("zones", d.zone, "disks", d.name), Number: d.pb.GetId(), Status: d.pb.GetStatus(),
			Labels: d.pb.GetLabels(), Pending: !d.visible(), Deleting: d.pb.GetStatus() == "DELETING",
		})
	}
	for name, f := range p.firewalls {
		left = append(left, Leftover{
			ID: p.path("global", "firewalls", name), Number: f.pb.GetId(), Pending: !f.visible, Deleting: f.deleting,
		})
	}
	return left
}
