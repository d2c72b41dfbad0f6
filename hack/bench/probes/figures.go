package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// figures are values by name, one for each run.
type figures map[string][]float64

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

func (f figures) median(name string) float64 {
	v := slices.Sorted(slices.Values(f[name]))
	return v[len(v)/2]
}

// bounds are what the figures must not exceed, in the order in which they are printed. A figure without a bound (0) says
// where the others come from.
var bounds = []struct {
	name string
	most float64
	what string
}{
	{"probe_cpu_ratio", 1.25, "CPU per probe ÷ that of the reference"},
	{"probe_overhead_ratio", 0.05, "engine CPU per due probe that does nothing, 10,000 targets, ÷ CPU per probe of the reference"},
	{"schedule_growth", 2, "engine CPU per due probe that does nothing at 100,000 targets ÷ at 1,000"},
	{"target_bytes", 1024, "engine memory per idle target, snapshots and metrics excluded"},
	{"live_lateness_p99_ms", 1000, "p99 of how late probes of live targets begin, 10,000 targets every 30 s, 30 % of them dead"},
	{"live_lateness_shock_p99_ms", 2000, "the same in the minute in which the 30 % die"},
	{"probe_cpu_micros", 0, "CPU per probe"},
	{"reference_probe_cpu_micros", 0, "CPU per probe of the reference"},
	{"probe_overhead_micros", 0, "engine CPU per due probe that does nothing, metrics included, beside the probers"},
	{"probe_overhead_rest_micros", 0, "the same while the machine is otherwise at rest"},
	{"schedule_few_nanos", 0, "engine CPU per due probe that does nothing at 1,000 targets"},
	{"schedule_many_nanos", 0, "the same at 100,000"},
}

// print writes the medians and reports whether all are within their bounds.
func (f figures) print() (within bool) {
	within = true
	for _, b := range bounds {
		value := f.median(b.name)
		text := strconv.FormatFloat(value, 'g', 4, 64)
		limit := ""
		if b.most > 0 {
			limit = fmt.Sprintf(", at most %g", b.most)
		}
		fmt.Fprintf(os.Stderr, "# %s: %s%s (runs: %s)\n", b.name, b.what, limit, f.all(b.name))
		fmt.Printf("bench %s %s\n", b.name, text)
		if b.most > 0 && value > b.most {
			within = false
			fmt.Printf("bench-over %s %s > %g\n", b.name, text, b.most)
		}
	}
	return within
}

func (f figures) all(name string) string {
	out := make([]string, len(f[name]))
	for i, v := range f[name] {
		out[i] = strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strings.Join(out, " ")
}
