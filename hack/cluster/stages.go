//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/isolation"
	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/node"
)

// The program starts itself twice; these tell it which of its lives it is in, and what to do there.
const (
	envStage = "EPX_CLUSTER_STAGE"
	envPlan  = "EPX_CLUSTER_PLAN"

	stageInit   = "init"
	stageInside = "inside"
)

// inherited returns what the stage before has left in the environment, and takes it out of there.
func inherited() (stage string, plan node.Config, err error) {
	stage = os.Getenv(envStage)
	if stage == "" {
		return "", plan, nil
	}
	if err := json.Unmarshal([]byte(os.Getenv(envPlan)), &plan); err != nil {
		return "", plan, fmt.Errorf("reading %s: %w", envPlan, err)
	}
	_ = os.Unsetenv(envStage)
	_ = os.Unsetenv(envPlan)
	return stage, plan, nil
}

// environment is that of the next stage.
func environment(stage string, plan node.Config) ([]string, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), envStage+"="+stage, envPlan+"="+string(data)), nil
}

// first is the first process of the namespaces: it makes them a home and then only waits.
func first(plan node.Config) int {
	err := isolation.Enter(plan.Dir, isolation.View{
		Empty:   []string{"/run"}, // sockets of others: of a containerd, of systemd
		Private: plan.ReplacedFolders(),
	})
	if err != nil {
		return fail(err)
	}
	if err := isolation.Network(node.Address); err != nil {
		return fail(err)
	}
	env, err := environment(stageInside, plan)
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
