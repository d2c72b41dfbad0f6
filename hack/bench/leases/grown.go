package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

const (
	fewProxies, manyProxies = "1000", "100000"
	// growthCPU is how much CPU time a run takes at least: what the runtime does beside it must not count.
	growthCPU = 40 * time.Millisecond
)

// measureGrowth fills in the figures that come from picker and ledger alone.
func measureGrowth(ctx context.Context, f figures) error {
	few, err := start(ctx, "growth", fewProxies)
	if err != nil {
		return err
	}
	many, err := start(ctx, "growth", manyProxies)
	if err != nil {
		return err
	}
	worst, allocs := 0.0, make([]float64, runs)
	for i, s := range shapes() {
		ratios := figures{}
		// The first request of a class builds its ranking; what is measured is all others.
		for _, p := range []*process{few, many} {
			if _, err := run(p, task{Shape: i, Prepare: true, CPU: 1}); err != nil {
				return err
			}
		}
		for r := range runs {
			a, err := run(few, task{Shape: i, CPU: growthCPU})
			if err != nil {
				return err
			}
			b, err := run(many, task{Shape: i, CPU: growthCPU})
			if err != nil {
				return err
			}
			ratios.add("growth", float64(b.CPU)/float64(a.CPU))
			ratios.add("few", float64(a.CPU))
			ratios.add("many", float64(b.CPU))
			allocs[r] = max(allocs[r], a.Allocs, b.Allocs)
		}
		fmt.Fprintf(os.Stderr, "# growth %s: %.2f (%.0f ns at %s, %.0f ns at %s; runs: %s)\n", s.name, ratios.median("growth"),
			ratios.median("few"), fewProxies, ratios.median("many"), manyProxies, ratios.all("growth"))
		// The worst case by its median, not the worst of each run: that would add up what goes wrong with any.
		if m := ratios.median("growth"); m > worst {
			worst, f["lease_growth"] = m, ratios["growth"]
		}
	}
	f["lease_allocs"] = allocs
	return errors.Join(few.end(), many.end())
}

func run(p *process, t task) (c cost, err error) {
	if err = p.tell(t, &c); err == nil && c.Error != "" {
		err = errors.New(c.Error)
	}
	if err == nil && (c.CPU <= 0 || math.IsNaN(c.Allocs)) {
		err = fmt.Errorf("nothing was measured: %+v", c)
	}
	return c, err
}
