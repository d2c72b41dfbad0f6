//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/host"
	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
)

// first is the first process of the namespaces: it makes them a home and then only waits.
func first(plan host.Config) int {
	syscall.Umask(0o022) // QEMU's user passes through folders that we make
	err := isolation.Enter(plan.Dir, isolation.View{
		Empty:   []string{"/run"}, // sockets of others: of a libvirtd, of systemd
		Private: plan.ReplacedFolders(),
	})
	if err != nil {
		return fail(err)
	}
	if err := isolation.Loopback(); err != nil {
		return fail(err)
	}
	env, err := isolation.Environment(isolation.StageInside, plan)
	if err != nil {
		return fail(err)
	}
	code, err := isolation.Init(env)
	if err != nil {
		return fail(err)
	}
	return code
}

// inside brings the hosts up and runs the command. What it leaves running, domains too, ends with the namespaces.
func inside(plan host.Config) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hosts, err := host.Up(ctx, plan, os.Stderr)
	if ctx.Err() != nil {
		return fail(errors.New("interrupted"))
	}
	if err != nil {
		return fail(err)
	}
	code, err := isolation.ExitCode(hosts.Run(ctx, os.Environ()))
	if err != nil {
		return fail(fmt.Errorf("running %s: %w", plan.Command[0], err))
	}
	return code
}
