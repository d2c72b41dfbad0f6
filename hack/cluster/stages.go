//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/node"
	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
)

// first is the first process of the namespaces: it makes them a home and then only waits.
func first(plan node.Config) int {
	err := isolation.Enter(plan.Dir, isolation.View{
		Cgroups:  true,
		Tunables: node.Tunables,
		Empty:    []string{"/run"}, // sockets of others: of a containerd, of systemd
		Private:  plan.ReplacedFolders(),
	})
	if err != nil {
		return fail(err)
	}
	if err := isolation.Network(node.Address); err != nil {
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

// inside brings the cluster up and runs the command. What it leaves running ends with the namespaces.
func inside(plan node.Config) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := node.Up(ctx, plan, os.Stderr)
	if ctx.Err() != nil {
		return fail(errors.New("interrupted"))
	}
	if err != nil {
		return fail(err)
	}
	code, err := isolation.ExitCode(cluster.Run(ctx, os.Environ()))
	if err != nil {
		return fail(fmt.Errorf("running %s: %w", plan.Command[0], err))
	}
	return code
}
