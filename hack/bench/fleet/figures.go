package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"
)

// figures are values by name.
type figures map[string]float64

// bound is what a figure must not exceed, if it is bounded; the others say where those come from.
type bound struct {
	name string
	most float64
	kind kind
	what string
}

type kind int

const (
	bounded kind = iota
	told
)

func bounds() []bound {
	return []bound{
		{"fleet_peak_mib", 128, bounded, "peak of what the operator is charged in a cgroup of 128 MiB, with GOMEMLIMIT=" + memoryLimit},
		{"fleet_gc_cpu_percent", 10, bounded, "garbage collection's share of its CPU"},
		{"fleet_writes_per_proxy", 4, bounded, "writes to the API server until all are Ready, Events included, per Proxy"},
		{"fleet_idle_writes_per_minute", 0, bounded, "writes once nothing changes"},
		{"fleet_ready_ratio", 1.5, bounded, "time to all Ready ÷ a bare client's for as many writes and one creation"},
		{"fleet_restart_ratio", 3, bounded, "clean stop and restart to the first lease ÷ a bare client's list of the fleet"},
		{"fleet_rss_mib", 0, told, "peak of its resident memory, the program's text included"},
		{"fleet_heap_mib", 0, told, "heap in use at the end, without lists and scrapes"},
		{"fleet_ready_seconds", 0, told, "time from the start to all Ready"},
		{"fleet_bare_writes_per_second", 0, told, "writes of the bare client, the best of 1, 10 and 100 workers"},
		{"fleet_restart_seconds", 0, told, "clean stop and restart to the first lease"},
		{"fleet_list_seconds", 0, told, "a bare client's list"},
		{"fleet_cpu_seconds", 0, told, "CPU of the operator until the restart"},
		{"fleet_leases_per_second", 0, told, "leases granted a second, of 200 asked for"},
		{"fleet_lease_p99_millis", 0, told, "99th percentile of an acquire"},
	}
}

// print writes the figures and reports whether all are within their bounds.
func (f figures) print() (within bool) {
	within = true
	for _, b := range bounds() {
		value, ok := f[b.name]
		limit := ""
		if b.kind == bounded {
			limit = fmt.Sprintf(", at most %g", b.most)
		}
		fmt.Fprintf(os.Stderr, "# %s: %s%s\n", b.name, b.what, limit)
		fmt.Printf("bench %s %s\n", b.name, strconv.FormatFloat(value, 'g', 4, 64))
		if !ok || b.kind == bounded && value > b.most {
			fmt.Fprintf(os.Stderr, "# %s is out of its bounds\n", b.name)
			within = false
		}
	}
	return within
}

// report notes how crawlers fared.
func (l *load) report(f figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note("answers to requests for a lease by status: %v; scrapes and lists: %d, of which %d failed", l.status, l.gets, l.failed)
	slices.Sort(l.took)
	if len(l.took) == 0 {
		return
	}
	f["fleet_lease_p99_millis"] = float64(l.took[len(l.took)*99/100]) / float64(time.Millisecond)
	total := 0
	for _, n := range l.status {
		total += n
	}
	f["fleet_leases_per_second"] = leaseRate * float64(l.status[http.StatusCreated]) / float64(total)
}
