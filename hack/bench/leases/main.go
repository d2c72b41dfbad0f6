// Command leases measures what leases and lists cost, against a reference and against themselves in a larger fleet. It
// prints `bench <name> <value>` for each figure, the median of its runs, and says on standard error what it means and how
// far the runs were apart.
//
// It runs itself in other roles: a server with the API, a server with the frozen reference (reference.go), both with the
// same fleet and the same changes of verdicts, a load generator, a server with short time limits and a process of bad
// clients for it, and two processes that acquire without HTTP. The runs take turns, so that whatever else the machine does
// bears on both sides of a ratio; each ratio is of one run.
//
// It ends with 1 when something could not be measured. Figures over their bound are marked with a line
// `bench-over <name> <value> > <bound>`; they are a failure with BENCH_STRICT=1. BENCH_FULL=1 measures three times as long.
// BENCH_PROFILE=path writes CPU profiles of both servers to path.api and path.reference.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	ctx := context.Background()
	args := append(os.Args[1:], "", "")
	var err error
	switch args[0] {
	case "api", "reference", "besieged":
		err = serve(ctx, args[0])
	case "load":
		err = generate(ctx)
	case "bad":
		err = besiege(ctx)
	case "growth":
		var n int
		if n, err = strconv.Atoi(args[1]); err == nil {
			err = grow(ctx, n)
		}
	default:
		err = measure(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure measures everything and prints it.
func measure(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := figures{}
	fmt.Fprintln(os.Stderr, "# load average before:", loadAverage())
	if err := measureServers(ctx, f); err != nil {
		return err
	}
	if err := measureBad(ctx, f); err != nil {
		return err
	}
	if err := measureGrowth(ctx, f); err != nil {
		return err
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
