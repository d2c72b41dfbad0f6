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
	{"lease_cpu_ratio", 1.3, "server CPU per acquire and release ÷ that of two calls of the reference"},
	{"lease_p99_ratio", 2, "open-loop p99 of an acquire ÷ the reference's, both at half of what the slower can do"},
	{"lease_growth", 3, "worst case of CPU per acquire and release at 100,000 proxies ÷ at 1,000"},
	{"lease_allocs", 5, "allocations per acquire and release in picker and ledger, worst case"},
	{"list_cpu_ratio", 1.5, "server CPU per listed proxy ÷ encoding/json of the same structs"},
	{"list_heap_kib", 1024, "KiB allocated per list of 500"},
	{"refusal_cpu_ratio", 1, "server CPU per refused acquire ÷ per granted one, 2,000 clients"},
	{"bad_clients_p99_ratio", 2, "open-loop p99 of an acquire beside 500 bad clients ÷ without them"},
	{"lease_cpu_micros", 0, "server CPU per acquire and release"},
	{"reference_cpu_micros", 0, "server CPU per two calls of the reference"},
	{"lease_p99_micros", 0, "open-loop p99 of an acquire"},
	{"reference_p99_micros", 0, "open-loop p99 of the reference"},
	{"lease_rate", 0, "operations a second in the open loops"},
	{"list_proxy_micros", 0, "server CPU per listed proxy"},
	{"refused_cpu_micros", 0, "server CPU per refused acquire"},
	{"granted_cpu_micros", 0, "server CPU per granted acquire"},
	{"bad_clients_p99_micros", 0, "open-loop p99 of an acquire beside 500 bad clients, at a quarter of lease_rate"},
	{"no_bad_clients_p99_micros", 0, "open-loop p99 of an acquire on the same server without them"},
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
