package crash

import (
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxSteps bounds the time until one operator alone has to be done.
const maxSteps = 3000

// begin brings the world to where the plot begins.
func (d *duo) begin() error {
	if d.plot.settled {
		for d.unsettled() != nil {
			if d.steps > maxSteps {
				return fmt.Errorf("before the plot began: %w", d.unsettled())
			}
			d.round()
		}
		d.clock.Step(time.Hour)
	}
	d.versions = []*v1alpha1.Proxy{d.get()}
	for d.told < len(d.plot.steps) && !d.plot.steps[d.told].anytime {
		d.tell()
	}
	return nil
}

// play runs the plot as by decides until the current operator alone has put everything right. It is cut short where
// known says that all that can follow is known.
func (d *duo) play(by decider, known func() bool) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r) // so that its schedule is told
		}
	}()
	if err := d.begin(); err != nil {
		return err
	}
	for d.steps = 0; d.steps < maxSteps; {
		if d.current().idle() && d.unsettled() == nil {
			if d.told == len(d.plot.steps) {
				return d.end()
			}
			d.tell()
		}
		if known() {
			return nil
		}
		ways := d.moves()
		way := 0
		if len(ways) > 1 {
			way = by.decide(len(ways))
		}
		if way > 0 {
			d.log("-> %s", ways[way].name)
		}
		d.left = d.left.less(ways[way].cost)
		if ways[way].do(); d.broken != nil {
			return d.broken
		}
	}
	return fmt.Errorf("one operator alone does not get there: %w", d.unsettled())
}

// end wakes the other operator, wherever it had stopped: what it still does must change nothing. Then they take turns,
// and an hour later once more.
func (d *duo) end() error {
	for _, later := range []time.Duration{0, time.Hour} {
		d.clock.Step(later)
		if err := d.takeTurns(); err != nil {
			return err
		}
	}
	return nil
}

func (d *duo) takeTurns() error {
	for i := range maxPasses {
		d.cur = 1 - d.cur
		if d.round(); d.broken != nil {
			return d.broken
		}
		if i >= 3 && d.unsettled() == nil {
			return nil
		}
	}
	return fmt.Errorf("both operators together do not get there: %w", d.unsettled())
}
