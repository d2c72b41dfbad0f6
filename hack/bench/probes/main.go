// Command probes measures what probing costs, against a reference and against itself with more targets, and how late
// probes of live targets begin while others are dead. It prints `bench <name> <value>` for each figure and says on
// standard error what it means. Figures are medians of runs, and each ratio is of one run; lateness is a 99th percentile
// of thousands of probes and is measured once, as it takes its minutes whatever the machine.
//
// It runs itself in other roles: an https origin, a forward proxy (internal/forwardproxy) that answers on every address
// of 127.0.0.0/8 and of which a part goes dark when told, one process that probes through it with internal/health and
// one with the frozen reference (reference.go), an engine whose probes do nothing, engines under a clock that the
// benchmark moves, and one that probes a fleet for real. All of them keep to two cores' worth of threads.
//
// It ends with 1 when something could not be measured. Figures over their bound are marked with a line
// `bench-over <name> <value> > <bound>`; they are a failure with BENCH_STRICT=1. BENCH_FULL=1 measures three times as
// long. BENCH_PROFILE=path writes a CPU profile of each role to path.role.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
)

func main() {
	if err := play(context.Background(), append(os.Args[1:], "", "")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// play is the process in the role that args name.
func play(ctx context.Context, args []string) (failure error) {
	if path := os.Getenv("BENCH_PROFILE"); path != "" && args[0] != "" {
		f, err := os.Create(path + "." + args[0] + sizeOf(args))
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			failure = errors.Join(failure, f.Close())
		}()
	}
	switch args[0] {
	case "origin":
		return serveOrigin(ctx)
	case "proxy":
		return serveProxies(ctx, args[1])
	case roleProber, roleReference:
		return probeInRounds(ctx, args[0], args[1])
	case "idle":
		return probeNothing(ctx)
	case "growth":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return grow(ctx, n)
	case "live":
		return probeFleet(ctx, args[1])
	}
	return measure(ctx)
}

// sizeOf returns the role's argument when it is a number of targets.
func sizeOf(args []string) string {
	if _, err := strconv.Atoi(args[1]); err != nil {
		return ""
	}
	return args[1]
}

// measure measures everything and prints it.
func measure(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := figures{}
	fmt.Fprintln(os.Stderr, "# load average before:", loadAverage())
	s, err := startSite(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return measureCPU(ctx, s, f) },
		func() error { return measureGrowth(ctx, f) },
		func() error { return measureLateness(ctx, s, f) },
		s.end,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	within := f.print()
	fmt.Fprintln(os.Stderr, "# load average after:", loadAverage())
	if !within && os.Getenv("BENCH_STRICT") == "1" {
		return errors.New("a figure is over its bound")
	}
	return nil
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
