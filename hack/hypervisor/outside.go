//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/host"
	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
)

const kind = isolation.Kind("hypervisor")

// misuse is the exit code when nothing was done.
const misuse = 2

// outside prepares, starts the rest in namespaces, waits for its end and removes what outlives them.
func outside() (code int) {
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	lack := unmet(opts.check)
	if err != nil {
		lack = err.Error()
	}
	if lack != "" {
		fmt.Fprintln(os.Stderr, "hypervisor:", lack)
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
		fmt.Fprintf(os.Stderr, "hypervisor: removed in %.1f s\n", time.Since(start).Seconds())
	}()
	plan, err := prepare(opts, room.Dir)
	if err != nil {
		return fail(err)
	}
	code, err = live(ctx, room, plan)
	if err != nil {
		code = fail(err)
	}
	if code != 0 && ctx.Err() == nil { // who interrupts it knows why
		components.ReportLogs("hypervisor", plan.Logs, opts.logs != "")
		fmt.Fprintln(os.Stderr, "hypervisor: exit code", code)
	}
	return code
}

// prepare turns the flags into a plan.
func prepare(o options, dir string) (host.Config, error) {
	plan := host.Config{Dir: dir, Logs: filepath.Join(dir, "logs"), Hosts: o.hosts, Image: o.image, Command: o.command}
	if o.logs != "" {
		plan.Logs = o.logs
	}
	err := os.MkdirAll(plan.Logs, 0o755)
	if err == nil && o.image != "" {
		plan.ImageSHA256, err = checksum(o.image)
	}
	return plan, err
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was read only
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// live starts the namespaces and returns their exit code when they have ended.
func live(ctx context.Context, room *isolation.Room, plan host.Config) (int, error) {
	env, err := isolation.Environment(isolation.StageInit, plan)
	if err != nil {
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
		fmt.Fprintln(os.Stderr, "hypervisor: something of a killed run stays:", err)
	}
	if len(swept) > 0 {
		fmt.Fprintln(os.Stderr, "hypervisor: removed what a killed run had left:", strings.Join(swept, ", "))
	}
}
