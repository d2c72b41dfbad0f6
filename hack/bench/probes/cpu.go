package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	runs = 5
	// turns is how often either prober has its turn in a run, probes how many it then makes, width at a time.
	turns, probes, width = 5, 200, 8
	// rest is how long the engine is alone on the machine in a run.
	rest = 1500 * time.Millisecond
)

// longer is n, or three times that with BENCH_FULL.
func longer[T int | time.Duration](n T) T {
	if os.Getenv("BENCH_FULL") == "1" {
		return 3 * n
	}
	return n
}

// measureCPU fills in what a probe costs and what the engine costs beside it.
func measureCPU(ctx context.Context, s *site, f figures) error {
	arg, err := s.arg()
	if err != nil {
		return err
	}
	c := contest{f: f}
	if c.idle, err = start(ctx, new(meter), "idle"); err != nil {
		return err
	}
	for i, role := range []string{roleProber, roleReference} {
		if c.probers[i], err = start(ctx, new(nothing), role, arg); err != nil {
			return err
		}
		if err := c.probers[i].tell(round{Probes: probes}, new(spent)); err != nil {
			return err
		}
	}
	for r := range runs {
		if err := c.run(r); err != nil {
			return err
		}
	}
	return errors.Join(c.probers[0].end(), c.probers[1].end(), c.idle.end())
}

// contest is the two probers, ours first, and an engine with 10,000 targets that is at work all the while. Its 333 probes
// a second are a small part of a core.
type contest struct {
	f       figures
	probers [2]*process
	idle    *process
}

// run lets the probers take turns. What the engine uses meanwhile is its overhead: the reference is then no better off,
// while on a machine at rest each time the engine wakes would count with what it takes to leave an idle state, which
// depends on the machine. That is measured as well, as a figure without a bound.
func (c *contest) run(r int) error {
	alone, err := c.overhead(func() error {
		<-time.After(longer(rest))
		return nil
	})
	if err != nil {
		return err
	}
	var cpu [2]time.Duration
	overhead, err := c.overhead(func() error {
		for turn := range 2 * longer(turns) {
			// Each goes first as often as the other.
			i := (turn + turn/2 + r) % 2
			var s spent
			if err := c.probers[i].tell(round{Probes: probes}, &s); err != nil {
				return err
			}
			cpu[i] += s.CPU
		}
		return nil
	})
	if err != nil {
		return err
	}
	made := int64(longer(turns) * probes)
	ours, reference := micros(cpu[0], made), micros(cpu[1], made)
	c.f.add("probe_cpu_ratio", ours/reference)
	c.f.add("probe_overhead_ratio", overhead/reference)
	c.f.add("probe_cpu_micros", ours)
	c.f.add("reference_probe_cpu_micros", reference)
	c.f.add("probe_overhead_micros", overhead)
	c.f.add("probe_overhead_rest_micros", alone)
	return nil
}

// overhead returns the microseconds that the engine uses for each probe that is due while f runs.
func (c *contest) overhead(f func() error) (float64, error) {
	var before, after meter
	if err := c.idle.tell(nothing{}, &before); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := c.idle.tell(nothing{}, &after); err != nil {
		return 0, err
	}
	due := after.Probes - before.Probes
	if due < 100 {
		return 0, fmt.Errorf("only %d probes were due", due)
	}
	return micros(after.CPU-before.CPU, due), nil
}

func micros(d time.Duration, times int64) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(times)
}
