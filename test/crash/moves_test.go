package crash

import (
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// move is one thing that can happen next.
type move struct {
	name string
	cost allowance
	do   func()
}

// jumps are how far the clock jumps in the middle of a pass: past the call timeout, and past every window.
var jumps = [...]time.Duration{31 * time.Second, 100 * time.Second}

// moves returns what can happen next: first of all, that the current operator goes on.
func (d *duo) moves() []move {
	all := []move{{"go on", allowance{}, d.step}}
	if d.told < len(d.plot.steps) && d.plot.steps[d.told].anytime {
		all = append(all, move{"meanwhile", allowance{}, d.tell})
	}
	if d.left.switches > 0 {
		all = append(all, d.switches()...)
	}
	if d.left.oddities > 0 {
		all = append(all, d.oddities()...)
	}
	return all
}

// switches are the ways to let the other operator go on.
func (d *duo) switches() []move {
	all := []move{{"switch", allowance{1, 0}, d.turn}}
	if d.left.oddities == 0 {
		return all
	}
	for _, j := range jumps {
		all = append(all, move{"switch after " + j.String(), allowance{1, 1}, func() { d.pause(j); d.turn() }})
	}
	if d.other().idle() {
		for _, old := range d.old() {
			all = append(all, move{"switch to a cache at version " + old.ResourceVersion, allowance{1, 1}, func() {
				d.other().cache = old
				d.turn()
			}})
		}
	}
	return all
}

// oddities are what can befall the current operator.
func (d *duo) oddities() (all []move) {
	op, cost := d.current(), allowance{0, 1}
	if !op.idle() {
		for _, j := range jumps {
			all = append(all, move{"pause for " + j.String(), cost, func() { d.pause(j); d.step() }})
		}
		all = append(all, move{"die", cost, op.start})
	}
	if op.task.at == atSendCreate || op.task.at == atSendDelete {
		for _, f := range []providertest.Fault{{Applied: true}, {ArriveAfter: callTimeout - time.Second}} {
			all = append(all, move{fmt.Sprintf("the answer is lost, the call arrives after %s", f.ArriveAfter), cost, func() {
				op.fault = f
				d.step()
			}})
		}
	}
	return all
}

func (d *duo) turn() {
	d.cur = 1 - d.cur
	d.step()
}

func (d *duo) pause(j time.Duration) {
	d.clock.Step(j)
	d.watch()
}

// old returns versions of the object that a cache may still show: the first and the one before the last.
func (d *duo) old() []*v1alpha1.Proxy {
	switch n := len(d.versions); n {
	case 0, 1:
		return nil
	case 2:
		return d.versions[:1]
	default:
		return []*v1alpha1.Proxy{d.versions[0], d.versions[n-2]}
	}
}

// state stands for everything that can follow, and for what will be found fault with: whether an instance was there before
// a step of the plot or came after it makes no other difference.
func (d *duo) state() fingerprint {
	return fingerprint(0).with(d.ops[0].past, d.ops[0].task.at, d.ops[1].past, d.ops[1].task.at,
		d.written, d.sent, d.cur, d.told, d.doomed, d.clock.Now().UnixNano())
}
