package gc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// fleet stores n Proxies with their instances.
func (x *rig) fleet(n int) (ps []*v1alpha1.Proxy, ids []string) {
	for i := range n {
		p := x.proxy(fmt.Sprintf("fleet-%d", i))
		ps, ids = append(ps, p), append(ids, x.create(p, ""))
	}
	return ps, ids
}

// crowd places n orphans.
func (x *rig) crowd(n int) (ids []string) {
	for i := range n {
		name := fmt.Sprintf("crowd-%03d", i)
		ids = append(ids, x.place("zone-b", x.dead(name)))
	}
	return ids
}

// strays stores a Proxy and places n instances of it, one in each zone.
func (x *rig) strays(n int) {
	m := x.dead("alive")
	m.UID = string(x.proxy("alive").UID)
	for _, zone := range zones(n) {
		x.place(zone, m)
	}
}

func TestAFleetOfFiveThatLostAllItsProxiesIsHeldUntilApproved(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	ps, ids := x.fleet(5)
	x.lose(ps...)
	for range 3 {
		if r := x.twice(); len(r.Held) != 5 || len(r.Digest) != 16 || len(r.Deleted) != 0 {
			t.Fatalf("report: %+v", r)
		}
	}
	x.there(ids...)
	sum := x.sweep().Digest
	x.restart(func(o *gc.Options) { o.Approve = "0123456789abcdef" })
	if r := x.twice(); len(r.Held) != 5 || r.Digest != sum {
		t.Fatalf("with another set approved: %+v", r)
	}
	x.restart(func(o *gc.Options) { o.Approve = sum })
	if r := x.twice(); len(r.Deleted) != 5 || len(r.Held) != 0 {
		t.Errorf("after the approval: %+v", r)
	}
	x.there()
}

func TestTwoOfTwoAreNotHeld(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	ps, _ := x.fleet(2)
	x.lose(ps...)
	x.twice()
	x.there()
}

func TestMoreThanATenthIsHeld(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{Zones: append(zones(108), "zone-b")})
	x.strays(108)
	ids := x.crowd(12) // of 120: exactly a tenth
	if r := x.twice(); len(r.Deleted) != 12 {
		t.Errorf("a tenth: %+v", r)
	}
	x.crowd(13) // of 121: more than a tenth
	if r := x.twice(); len(r.Held) != 13 {
		t.Errorf("more than a tenth: %+v", r)
	}
	if left := len(x.backend.Instances()); left != 121 {
		t.Errorf("%d left; orphans were %v", left, ids)
	}
}

func TestForeignAndLeavingInstancesDoNotWidenTheBreaker(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{Zones: append(zones(98), "zone-b")})
	fake := x.fake()
	x.strays(98)
	x.crowd(11) // of 109: more than a tenth
	fake.ListFunc = func(ctx ctxT) (provider.Listing, error) {
		l, err := x.provider(mine()).ListByTag(ctx)
		for i := range 30 {
			inst := provider.Instance{ID: fmt.Sprintf("zones/zone-a/instances/more-%d", i), Identity: fmt.Sprintf("more-%d", i)}
			if i%2 == 0 {
				inst.Marks, inst.State = x.dead(fmt.Sprintf("leaving-%d", i)), provider.StateDeleting
				inst.ID = idIn("zone-000", inst.Marks.UID)
			}
			l.Instances = append(l.Instances, inst)
		}
		return l, err
	}
	if r := x.twice(); len(r.Held) != 11 || r.Verdicts[gc.Foreign] != 15 || r.Verdicts[gc.Leaving] != 15 {
		t.Errorf("report: %+v", r)
	}
}

func TestTheBreakerIsPublished(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	ids := x.crowd(3)
	r := x.twice()
	x.sweep()
	if got := x.metrics.take(); !slices.Equal(got, slices.Repeat([]string{"held cloud 3 " + r.Digest}, 2)) {
		t.Errorf("metrics: %q", got)
	}
	if len(x.logs.matching("WARNING: ", `"provider"="cloud"`, r.Digest)) != 2 {
		t.Errorf("log:\n%s", x.logs)
	}
	for _, id := range ids {
		if len(x.logs.matching("held back", id)) != 1 {
			t.Errorf("%s is not named once in the log:\n%s", id, x.logs)
		}
	}
	if len(x.events.lines) != 2 || !strings.HasPrefix(x.events.lines[0], "Warning OrphanBreakerOpen ") ||
		!strings.Contains(x.events.lines[0], "3 of 3") || !strings.Contains(x.events.lines[0], r.Digest) {
		t.Fatalf("events: %q", x.events.lines)
	}
	ref, err := reference.GetReference(runtime.NewScheme(), x.events.about[0])
	must(t, err)
	if ref.Kind != "ProviderHealth" || ref.Name != cloud || ref.APIVersion != "crawl.example.com/v1alpha1" || ref.ResourceVersion != "" {
		t.Errorf("the Event is about %+v", ref)
	}

	x.backend.Vanish(ids[0])
	x.sweep()
	if got := x.metrics.take(); !slices.Equal(got, []string{"held cloud 0 ", "deleted cloud", "deleted cloud"}) {
		t.Errorf("metrics once it no longer holds: %q", got)
	}
}

func TestTheBreakersGaugeGoesWithItsProvider(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.crowd(3)
	x.twice()
	x.metrics.take()
	x.entries = nil
	x.sweepAll()
	x.sweepAll()
	if got := x.metrics.take(); !slices.Equal(got, []string{"gone cloud"}) {
		t.Errorf("metrics: %q", got)
	}
}

func TestAnotherSetNeedsAnotherApproval(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.health()
	ids := x.crowd(4)
	first := x.twice().Digest
	late := x.place("zone-a", x.dead("late"))
	x.twice()
	x.approve(first)
	r := x.sweep()
	if r.Digest == first || len(r.Held) != 5 {
		t.Errorf("report: %+v", r)
	}
	x.there(append(ids, late)...)

	// Under the same ID stands another machine now: what was approved was the old one.
	approved := r.Digest
	x.approve(approved)
	x.backend.Vanish(late)
	x.place("zone-a", x.dead("late"))
	if r := x.twice(); r.Digest == approved || len(r.Held) != 5 {
		t.Errorf("report: %+v", r)
	}
	x.approve(x.sweep().Digest)
	x.sweep()
	x.there()
}

// A backend that fails in the middle of a released set must not make people approve the rest once more; something new
// still needs its own approval.
func TestAReleasedSetStaysReleasedWhileItShrinks(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	fake := x.fake()
	x.health()
	x.crowd(14)
	approved := x.twice().Digest
	x.approve(approved)
	down := slices.Repeat([]error{errors.New("the backend is down")}, 13)
	fake.Next("delete", down...)
	if r := x.sweep(); len(r.Deleted) != 1 || len(r.Failed) != 13 {
		t.Fatalf("the released set: %+v", r)
	}
	late := x.place("zone-a", x.dead("late"))
	x.grow()
	fake.Next("delete", down...)
	if r := x.sweep(); len(r.Held) != 0 || len(r.Failed) != 13 {
		t.Errorf("the rest of it: %+v", r)
	}
	if r := x.sweep(); len(r.Held) != 14 || r.Digest == approved {
		t.Errorf("the rest and something new: %+v", r)
	}
	x.backend.Vanish(late)
	if r := x.sweep(); len(r.Deleted) != 13 {
		t.Errorf("the rest alone again: %+v", r)
	}
	x.there()
}

// A dead instance that is not due yet is no reason to take the others for less than the whole fleet.
func TestOrphansThatAreNotDueDoNotWidenTheBreaker(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	ids := x.crowd(3)
	x.twice()
	ids = append(ids, x.place("zone-a", x.dead("young")))
	if r := x.sweep(); len(r.Held) != 3 || r.Verdicts[gc.Young] != 1 {
		t.Errorf("with a young one: %+v", r)
	}
	ids = append(ids, x.place("zone-a", x.dead("fresh")))
	x.grow()
	if r := x.sweep(); len(r.Held) != 4 || r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("with a fresh one: %+v", r)
	}
	x.there(ids...)
}

func TestOneProvidersBreakerHoldsNoOther(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	other := providertest.NewFake("other", mine(), provider.Window{Clock: x.clock})
	x.entry("other", other)
	other.Backend().Place(idIn("zone-a", uidOf("o")), x.dead("o").ToMap(), 3128)
	x.crowd(3)
	x.grow()
	x.sweepAll()
	r := x.sweepAll()
	if len(r.Of(cloud).Held) != 3 || len(r.Of("other").Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
}

func TestADryRunHoldsToo(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{}, func(o *gc.Options) { o.DryRun = true })
	ids := x.crowd(3)
	sum := x.twice().Digest
	x.restart(func(o *gc.Options) { o.DryRun, o.Approve = true, sum })
	if r := x.twice(); len(r.Spared) != 3 || len(r.Held) != 0 {
		t.Errorf("report: %+v", r)
	}
	x.there(ids...)
}
