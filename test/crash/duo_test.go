package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// duo is one Proxy and one backend with two operators of one installation: the old leader that was paused and the new
// one, say.
type duo struct {
	*world
	cloud *providertest.Backend
	plot  plot
	ops   [2]*operator
	cur   int // the operator that goes on unless something else is decided
	left  allowance
	told  int // steps of the plot

	versions []*v1alpha1.Proxy // that the object had since the plot began, for caches that are behind
	// written and sent are the histories of the object and of the backend.
	written, sent fingerprint
	broken        error // the first promise that was broken
	steps         int
	log           func(format string, args ...any)
}

func newDuo(kind providertest.Kind, vis visibility, p plot) *duo {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	d := &duo{plot: p, log: func(string, ...any) {}, world: &world{
		doomed: map[string]bool{},
		clock:  clk, vis: vis, killAt: -1,
		api: newAPI(),
	}}
	d.cloud = providertest.NewBackend(kind, clk, vis.inMemory())
	d.backend = memory{d.cloud}
	d.cloud.OnCall(d.fault)
	d.create()
	for i := range d.ops {
		d.ops[i] = &operator{d: d, name: string(rune('A' + i))}
		d.ops[i].start()
	}
	return d
}

// close ends the operators' goroutines.
func (d *duo) close() {
	for _, op := range d.ops {
		op.stop()
	}
}

func (d *duo) current() *operator { return d.ops[d.cur] }
func (d *duo) other() *operator   { return d.ops[1-d.cur] }

// step lets the current operator go on to its next parking place; if its pass had ended, after its wait.
func (d *duo) step() {
	op := d.current()
	if op.idle() {
		d.clock.Step(op.wait)
	}
	d.steps++
	d.log("%s %s: %s", d.clock.Now().Format("15:04:05.000"), op.name, op.task.at)
	op.task.step()
	d.watch()
}

// round lets the current operator go on to the end of its pass.
func (d *duo) round() {
	for d.step(); !d.current().idle(); d.step() {
	}
}

// fault is what befalls the backend's calls. What is sent parks once more: others may come in between the last look and
// the call.
func (d *duo) fault(op string, ref provider.Ref) providertest.Fault {
	place := map[string]string{providertest.OpCreate: atSendCreate, providertest.OpDelete: atSendDelete}[op]
	if place == "" {
		return providertest.Fault{}
	}
	who := d.current()
	who.park(place)
	if op == providertest.OpDelete {
		d.judge(ref)
	} else if !d.plot.overdue && !d.clock.Now().Before(d.window().Deadline(ref)) {
		// The context that ends the call knows only the wall clock.
		return providertest.Fault{Err: context.DeadlineExceeded}
	}
	d.sent = d.sent.with(who.past, place, who.fault, d.clock.Now().UnixNano())
	f := who.fault
	who.fault = providertest.Fault{}
	if f.ArriveAfter > 0 && op == providertest.OpCreate {
		// As late as its deadline allows.
		f.ArriveAfter = ref.RequestedAt.Add(callTimeout - time.Millisecond).Sub(d.clock.Now())
	}
	return f
}

// wrote notes that somebody with that history has written the object.
func (d *duo) wrote(past fingerprint) {
	d.written = d.written.with(past)
	if p := d.get(); p != nil {
		d.versions = append(d.versions, p)
	} else if left := d.backend.Instances(); len(left) > 0 && !d.plot.restored {
		d.fail("the finalizer was released while there was %v", left)
	}
}

// tell takes the next step of the plot.
func (d *duo) tell() {
	for _, i := range d.backend.Instances() {
		d.doomed[i.Identity] = true
	}
	d.log("%s %s", d.clock.Now().Format("15:04:05.000"), d.plot.steps[d.told].name)
	d.plot.steps[d.told].do(d.world)
	d.told++
	d.wrote(fingerprint(d.told))
}

// watch looks for what must never be, whatever the order. That there is one instance under one ID at most is in the
// nature of all three backends.
func (d *duo) watch() {
	p, visible, wanted := d.get(), 0, ""
	kept := d.wanted == "" || d.doomed[d.wanted]
	for _, i := range d.backend.Instances() {
		if !i.Pending {
			visible++
		}
		if i.Deleting {
			continue
		}
		kept = kept || i.Identity == d.wanted
		if p != nil && p.DeletionTimestamp.IsZero() && !d.doomed[i.Identity] && right(p, i) {
			wanted = i.Identity
		}
	}
	if !kept {
		d.fail("the instance that is on record and as desired was removed (identity %s)", d.wanted)
	}
	d.wanted, d.maxVisible = wanted, max(d.maxVisible, visible)
	if visible > 1 && !d.plot.restored && !d.plot.overdue {
		d.fail("%d instances at one time: %v", visible, d.backend.Instances())
	}
}

// judge finds fault with a deletion, for a Proxy that lives, on the word of a cache alone, or of a stray out of order.
func (d *duo) judge(ref provider.Ref) {
	p := d.get()
	if p == nil || !p.DeletionTimestamp.IsZero() {
		return
	}
	if !d.current().proven {
		d.fail("a deletion of %s attempt %d is sent although nothing proves what the pass read", ref.ID, ref.Attempt)
	}
	if op := d.current(); ref.ID != op.asked && op.evidence != sawRecorded {
		d.fail("a deletion of the stray %s attempt %d is sent although nobody has seen what is on record", ref.ID, ref.Attempt)
	}
}

// right reports whether i is the recorded instance and as desired.
func right(p *v1alpha1.Proxy, i providertest.Leftover) bool {
	return i.ID == p.Status.ProviderID && p.Status.Instance != nil && i.Marks.Attempt == p.Status.Instance.Attempt &&
		provider.SameSpec(i.Marks.Spec, inputOf(p, "")) && p.Status.Replaced == p.Annotations[v1alpha1.AnnotationReplace]
}

func (d *duo) fail(format string, args ...any) {
	if d.broken == nil {
		d.broken = fmt.Errorf(format, args...)
		d.log("BROKEN: %v", d.broken)
	}
}

// unsettled returns what is missing for the Proxy to be as the plot leaves it.
func (d *duo) unsettled() error {
	p := d.get()
	switch {
	case d.cloud.InFlight() > 0:
		return errors.New("a call is on its way")
	case p == nil && d.gone():
		if left := d.backend.Instances(); len(left) > 0 {
			return fmt.Errorf("left behind: %v", left)
		}
		return nil
	}
	if err := d.converged(); err != nil {
		return err
	}
	if d.plot.renewed && d.doomed[d.backend.Instances()[0].Identity] {
		return errors.New("still the old instance")
	}
	if !p.DeletionTimestamp.IsZero() || p.Status.IP == "" || !right(p, d.backend.Instances()[0]) {
		return fmt.Errorf("not as desired: %v; spec %+v; status %+v", d.backend.Instances(), p.Spec, p.Status)
	}
	return nil
}

// gone reports whether the plot ends without a Proxy.
func (d *duo) gone() bool { return d.told == len(d.plot.steps) && d.plot.deleted }
