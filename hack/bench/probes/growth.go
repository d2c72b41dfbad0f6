package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/health"
)

const (
	few, many = 1_000, 100_000
	// perTarget makes as many probes due in a second with any number of targets, about eight in each look of the engine.
	// What is compared is then the number of targets alone.
	perTarget = 2500 * time.Microsecond
	// growthCPU is how much CPU time a turn takes at least: enough that each run has its share of garbage collections, of
	// which a large fleet has few and long ones.
	growthCPU = 200 * time.Millisecond
	// growthTurns is how many turns a run has.
	growthTurns = 4
)

// task is how much CPU time an engine is to spend on due probes; cost is what one of them took.
type (
	task struct{ CPU time.Duration }
	cost struct{ Nanos, TargetBytes float64 }
)

// measureGrowth fills in the figures that come from the engine without a network.
func measureGrowth(ctx context.Context, f figures) error {
	var engines [2]*process
	for i, n := range []int{few, many} {
		var err error
		if engines[i], err = start(ctx, new(cost), "growth", strconv.Itoa(n)); err != nil {
			return err
		}
	}
	for r := range runs {
		var nanos [2]float64
		for turn := range 2 * longer(growthTurns) {
			i := (turn + r) % 2
			var c cost
			if err := engines[i].tell(task{CPU: growthCPU}, &c); err != nil {
				return err
			}
			nanos[i] += c.Nanos / float64(longer(growthTurns))
		}
		f.add("schedule_growth", nanos[1]/nanos[0])
		f.add("schedule_few_nanos", nanos[0])
		f.add("schedule_many_nanos", nanos[1])
		var c cost
		fresh, err := start(ctx, &c, "growth", strconv.Itoa(fleetSize))
		if err != nil {
			return err
		}
		f.add("target_bytes", c.TargetBytes)
		if err := fresh.end(); err != nil {
			return err
		}
	}
	return errors.Join(engines[0].end(), engines[1].end())
}

// grow is an engine with n targets under a clock that goes as fast as the engine can follow. It says how much memory they
// take once each has been probed, and then what due probes cost.
func grow(ctx context.Context, n int) error {
	// One thread: whatever is due has been done when this goroutine, the last in line, has its turn again. And no thread
	// looks for work that is not there.
	runtime.GOMAXPROCS(1)
	store, prober, clock := newFleet(n, probeEvery(time.Duration(n)*perTarget, nil), nowhere), &noProbe{}, newLoopClock()
	before := memory()
	e, err := health.New(health.Options{Store: store, Prober: prober, Clock: clock})
	if err != nil {
		return err
	}
	go func() { _ = e.Start(ctx) }()
	for prober.count.Load() < 2*int64(n) {
		clock.advance()
	}
	ready := cost{TargetBytes: (memory() - before) / float64(n)}
	return obey(ready, func(t task) (cost, error) {
		first, begin := prober.count.Load(), cpuTime()
		for cpuTime()-begin < t.CPU {
			for range 100 {
				clock.advance()
			}
		}
		took, done := cpuTime()-begin, prober.count.Load()-first
		if done < 1000 {
			return cost{}, fmt.Errorf("only %d probes were due in %s", done, took)
		}
		return cost{Nanos: float64(took.Nanoseconds()) / float64(done)}, nil
	})
}

// memory is what heap and stacks hold, garbage left out.
func memory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
