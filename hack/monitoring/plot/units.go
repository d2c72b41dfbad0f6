package main

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// unit places ticks along values of a Grafana unit.
type unit string

// Ticks implements plot.Ticker.
func (u unit) Ticks(low, high float64) (out []plot.Tick) {
	step := nice((high - low) / 3)
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		out = append(out, plot.Tick{Value: v, Label: format(v, string(u))})
	}
	return out
}

// seconds places ticks along the time of the run.
type seconds struct{}

// Ticks implements plot.Ticker.
func (seconds) Ticks(low, high float64) (out []plot.Tick) {
	step := nice((high - low) / 4)
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%gs", v)})
	}
	return out
}

// nice returns the next of 1, 2, 5, 10, 20 … at or above v.
func nice(v float64) float64 {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// tiny is the least height of an axis, so that zero does not look like noise.
func tiny(unit string) float64 {
	switch unit {
	case "s":
		return 0.001
	case "percentunit":
		return 0.01
	case "reqps", "ops":
		return 0.1
	default:
		return 1
	}
}

// format shows a value as Grafana does, roughly.
func format(v float64, unit string) string {
	number := func(v float64) string {
		if math.Abs(v) >= 1000 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	switch unit {
	case "s":
		if v != 0 && math.Abs(v) < 1 {
			return number(v*1000) + " ms"
		}
		return number(v) + " s"
	case "percentunit":
		return number(v*100) + " %"
	case "bytes":
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case "reqps", "ops":
		return number(v) + "/s"
	default:
		return number(v)
	}
}
