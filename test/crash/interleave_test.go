package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// cell is a plot on a kind of backend, and how far its schedules are explored.
type cell struct {
	plot    plot
	kind    providertest.Kind
	vis     visibility
	allowed allowance
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%s/%s/%d+%d", c.plot.name, c.kind, c.vis.name, c.allowed.switches, c.allowed.oddities)
}

func delays() []visibility {
	return []visibility{{name: "at once"}, {name: "after 20 s", delay: 20 * time.Second}}
}

func (c cell) new() *duo {
	d := newDuo(c.kind, c.vis, c.plot)
	d.left = c.allowed
	return d
}

// explore plays all schedules of c; one that comes to a state from which all is known is cut short there.
func (c cell) explore(t *testing.T, known seen) (runs, most int) {
	t.Helper()
	s := &script{}
	for more := true; more; runs++ {
		d := c.new()
		err := d.play(s, func() bool { return len(s.taken) >= len(s.told) && known.before(d.state(), d.left) })
		d.close()
		if err != nil {
			c.report(t, s.taken, err)
			return runs, most
		}
		most = max(most, d.maxVisible)
		var next decisions
		next, more = s.following()
		s = &script{told: next}
	}
	return runs, most
}

// replay plays one schedule.
func (c cell) replay(ds decisions, log func(string, ...any)) error {
	d := c.new()
	defer d.close()
	d.log = log
	return d.play(&script{told: ds}, func() bool { return false })
}

// report tells a failed schedule, with as few decisions as it takes.
func (c cell) report(t *testing.T, ds decisions, err error) {
	t.Helper()
	silent := func(string, ...any) {}
	ds = shorten(ds, func(fewer decisions) bool { return c.replay(fewer, silent) != nil })
	last := c.replay(ds, t.Logf)
	t.Errorf("%v\nas shortened: %v\nto replay: CRASH_SCHEDULE='%s:%s' go test -run TestSchedule$ ./test/crash", err, last, c, ds)
}

// TestInterleavings lets two operators loose on one Proxy and plays every order of their accesses, up to a bound.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("interleavings total runs=%d", total.Load()) })
	for _, p := range plots() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			n, most := p.explore(t)
			total.Add(int64(n))
			if raceEnabled || t.Failed() {
				return
			}
			if n < p.least {
				t.Errorf("%d schedules, at least %d belong to this plot", n, p.least)
			}
			if p.overdue && most < 2 {
				t.Error("no schedule made a second instance appear")
			}
		})
	}
}

// explore plays all cells of p and returns how many schedules there were and how many instances at most at one time.
func (p plot) explore(t *testing.T) (runs, most int) {
	t.Helper()
	known, at := seen{}, ""
	for _, c := range p.cells() {
		if raceEnabled && (c.kind != providertest.KindGCP || c.vis.delay > 0 || c.allowed != allowance{1, 0}) {
			continue // one at a time there is no race to be found: a sample is enough
		}
		if where := string(c.kind) + c.vis.name; where != at {
			known, at = seen{}, where
		}
		n, m := c.explore(t, known)
		t.Logf("interleavings flow=%q kind=%s visible=%q switches=%d oddities=%d runs=%d",
			p.name, c.kind, c.vis.name, c.allowed.switches, c.allowed.oddities, n)
		runs, most = runs+n, max(most, m)
	}
	return runs, most
}

// TestRandomSchedules goes past the bound: longer plots, many switches and oddities, at random. CRASH_SEED changes them.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	seed, each := crashSeed(t), 8
	if raceEnabled {
		each = 1
	}
	for _, p := range append(plots(), longPlots()...) {
		for _, kind := range providertest.Kinds() {
			for _, vis := range delays() {
				c := cell{p, kind, vis, allowance{switches: 8, oddities: 4}}
				t.Run(c.String(), func(t *testing.T) {
					t.Parallel()
					for i := range uint64(each) {
						c.gamble(t, seed, i)
					}
				})
			}
		}
	}
}

func (c cell) gamble(t *testing.T, seed, i uint64) {
	t.Helper()
	d := c.new()
	defer d.close()
	by := &dice{Rand: rand.New(rand.NewPCG(seed, i))}
	if err := d.play(by, func() bool { return false }); err != nil {
		c.report(t, by.taken, fmt.Errorf("seed %d, run %d: %w", seed, i, err))
	}
}

// TestSameDecisionsSameRun: without this, no schedule could be replayed and no state be known again.
func TestSameDecisionsSameRun(t *testing.T) {
	t.Parallel()
	for i, p := range longPlots() {
		var told [2]string
		for j := range told {
			c := cell{p, providertest.KindGCP, delays()[1], allowance{switches: 8, oddities: 4}}
			d := c.new()
			err := d.play(&dice{Rand: rand.New(rand.NewPCG(1, uint64(i)))}, func() bool {
				told[j] += fmt.Sprintln(d.state())
				return false
			})
			d.close()
			told[j] += fmt.Sprint(err, d.backend.Instances())
		}
		if told[0] != told[1] {
			t.Errorf("%s: two runs with the same decisions differ", p.name)
		}
	}
}

// TestSchedule replays what CRASH_SCHEDULE names, as a failure prints it.
func TestSchedule(t *testing.T) {
	t.Parallel()
	text := os.Getenv("CRASH_SCHEDULE")
	if text == "" {
		t.Skip("CRASH_SCHEDULE is not set")
	}
	c, ds, err := parseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.replay(ds, t.Logf); err != nil {
		t.Error(err)
	}
}

func parseSchedule(text string) (c cell, ds decisions, err error) {
	name, list, _ := strings.Cut(text, ":")
	parts := strings.Split(name, "/")
	if len(parts) != 4 {
		return c, nil, fmt.Errorf("CRASH_SCHEDULE=%q: want plot/kind/visibility/switches+oddities:decisions", text)
	}
	if _, err := fmt.Sscanf(parts[3], "%d+%d", &c.allowed.switches, &c.allowed.oddities); err != nil {
		return c, nil, fmt.Errorf("CRASH_SCHEDULE=%q: %w", text, err)
	}
	for _, p := range append(plots(), longPlots()...) {
		for _, kind := range providertest.Kinds() {
			for _, vis := range delays() {
				if c.plot, c.kind, c.vis = p, kind, vis; c.String() == name {
					ds, err = parseDecisions(list)
					return c, ds, err
				}
			}
		}
	}
	return c, nil, fmt.Errorf("CRASH_SCHEDULE=%q: there is no %q", text, name)
}

func crashSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("CRASH_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("CRASH_SEED=%q: %v", text, err)
	}
	return n
}
