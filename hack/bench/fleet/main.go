// Command fleet measures the operator with a large fleet: 10,000 Proxies, half of them External and half VMs of an emulated
// Compute Engine in 20 projects, one of which never answers. The real control plane, the shipped binaries; every Proxy is probed
// through a real egress-proxy at a loopback address of its own. Meanwhile metrics are scraped, proxies listed, orphans looked
// for, and 200 leases granted a second.
//
//	go run ./hack/bench/fleet [-n 10000] [-v] [-profile FILE]
//
// It prints `bench <name> <value>` for each figure and ends with 1 when a figure is out of its bounds or the fleet does not
// come up. It takes about twenty minutes on two cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	n := flag.Int("n", 10_000, "Proxies, a multiple of 40")
	verbose := flag.Bool("v", false, "show the operator's log")
	profile := flag.String("profile", "", "write profiles of the operator's heap to FILE.ready and FILE.idle, and set it no memory limit")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *n, *verbose, *profile)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

var errOutOfBounds = errors.New("a figure is out of its bounds")

func run(ctx context.Context, n int, verbose bool, profile string) (err error) {
	if n <= 0 || n%(2*projects) != 0 {
		return fmt.Errorf("-n=%d: want a multiple of %d", n, 2*projects)
	}
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, err := newWorld(ctx, dir, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if w.profile = profile; profile == "" {
		w.cage = newCage()
	}
	f := figures{}
	if err := measure(ctx, w, f, verbose); err != nil {
		return err
	}
	if !f.print() {
		return errOutOfBounds
	}
	return nil
}

// measure takes the fleet through its life.
func measure(ctx context.Context, w *world, f figures, verbose bool) error {
	note("%d Proxies on record", w.n)
	if err := w.create(ctx); err != nil {
		return err
	}
	before, err := w.writes(ctx)
	if err != nil {
		return err
	}
	op, err := w.operator(ctx, verbose)
	if err != nil {
		return err
	}
	defer op.kill()
	load := w.load(ctx, op)
	defer load.end()
	ready, err := op.untilReady(ctx, w.reachable())
	if err != nil {
		return err
	}
	note("%d Ready after %.1f s", w.reachable(), ready.Seconds())
	if err := op.heap(ctx, w.profile, ".ready"); err != nil {
		return err
	}
	settled, err := w.quiet(ctx)
	if err != nil {
		return err
	}
	written := settled.less(before)
	note("written until then: %v", written)
	f["fleet_writes_per_proxy"] = float64(written.total()) / float64(w.n)
	f["fleet_ready_seconds"] = ready.Seconds()

	note("idle for %s", idleTime)
	if err := wait(ctx, idleTime); err != nil {
		return err
	}
	idle, err := w.writes(ctx)
	if err != nil {
		return err
	}
	if more := idle.less(settled); len(more) > 0 {
		note("written meanwhile: %v", more)
	}
	f["fleet_idle_writes_per_minute"] = float64(idle.less(settled).total()) / idleTime.Minutes()
	if err := op.heap(ctx, w.profile, ".idle"); err != nil {
		return err
	}
	if err := op.account(ctx, w.cage, f); err != nil {
		return err
	}
	load.end()
	load.report(f)
	note("a restart")
	if err := w.restarts(ctx, op, f, verbose); err != nil {
		return err
	}
	note("a bare client")
	rate, err := w.bare(ctx)
	if err != nil {
		return err
	}
	f["fleet_bare_writes_per_second"] = rate
	f["fleet_ready_ratio"] = ready.Seconds() / (float64(written.total())/rate + creation.Seconds())
	return nil
}

func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "# %s: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// repository is its root.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
