//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/node"
	"github.com/egress-proxies/egress-proxies-operator/hack/components"
	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
)

const kind = isolation.Kind("cluster")

// misuse is the exit code when nothing was done.
const misuse = 2

// outside prepares, starts the rest in namespaces, waits for its end and removes what outlives them.
func outside() (code int) {
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	lack := unmet()
	if err != nil {
		lack = err.Error()
	}
	if lack != "" {
		fmt.Fprintln(os.Stderr, "cluster:", lack)
		return misuse
	}
	if opts.check {
		return 0
	}
	if err := isolation.EndWithGoRun(); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	sweep()
	room, err := kind.New()
	if err != nil {
		return fail(err)
	}
	defer func() {
		start := time.Now()
		if err := room.Remove(); err != nil {
			code = max(code, fail(err))
		}
		fmt.Fprintf(os.Stderr, "cluster: removed in %.1f s\n", time.Since(start).Seconds())
	}()
	plan, err := prepare(ctx, opts, room.Dir)
	if err != nil {
		return fail(err)
	}
	code, err = live(ctx, room, plan)
	if err != nil {
		code = fail(err)
	}
	if code != 0 && ctx.Err() == nil { // who interrupts it knows why
		components.ReportLogs("cluster", plan.Logs, opts.logs != "")
		fmt.Fprintln(os.Stderr, "cluster: exit code", code)
	}
	return code
}

// prepare gets everything that the namespaces cannot get from inside: there is no network.
func prepare(ctx context.Context, o options, dir string) (node.Config, error) {
	plan := node.Config{Dir: dir, Logs: filepath.Join(dir, "logs"), Pause: o.pause, Images: o.images, Command: o.command}
	if o.logs != "" {
		plan.Logs = o.logs
	}
	if err := os.MkdirAll(plan.Logs, 0o755); err != nil {
		return plan, err
	}
	var err error
	if plan.ControlPlane, err = assets.Ensure(ctx, os.Stderr); err != nil {
		return plan, err
	}
	if plan.Node, err = assets.EnsureNode(ctx, os.Stderr); err != nil {
		return plan, err
	}
	if plan.Pause == "" {
		plan.Pause = filepath.Join(dir, "pause.tar")
		err = makePause(ctx, plan.Pause)
	}
	return plan, err
}

// live starts the namespaces and returns their exit code when they have ended.
func live(ctx context.Context, room *isolation.Room, plan node.Config) (int, error) {
	env, err := isolation.Environment(isolation.StageInit, plan)
	if err != nil {
		return 0, err
	}
	if err := room.MakeCgroups(); err != nil {
		return 0, err
	}
	cmd, err := room.Start(env)
	if err != nil {
		return 0, fmt.Errorf("making namespaces: %w", err)
	}
	// Asked to end, we ask once and wait: the command may need its time, which is limited inside.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return isolation.ExitCode(cmd.Wait())
}

// sweep removes what killed runs have left. What it cannot remove is in nobody's way.
func sweep() {
	swept, err := kind.Sweep()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster: something of a killed run stays:", err)
	}
	if len(swept) > 0 {
		fmt.Fprintln(os.Stderr, "cluster: removed what a killed run had left:", strings.Join(swept, ", "))
	}
}
