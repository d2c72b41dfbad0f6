package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
)

// commandGrace is how long the command has for its own end when it is asked to.
const commandGrace = 20 * time.Second

// Run runs the command in the cluster, with env and what Env adds, and returns its error as os/exec does. When ctx ends,
// the command gets SIGTERM and, after twenty seconds, SIGKILL.
func (l *Cluster) Run(ctx context.Context, env []string) error {
	stop, err := l.serveControl(ctx)
	if err != nil {
		return err
	}
	defer stop()
	argv := l.config.Command
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(env, l.config.Env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	err = cmd.Run()
	for _, p := range l.processes {
		if gone := p.unexpectedEnd(); gone != nil {
			fmt.Fprintln(l.progress, "cluster:", gone)
		}
	}
	return err
}

// Env is what the command finds in its environment.
func (c Config) Env() []string {
	return []string{
		"KUBECONFIG=" + c.Kubeconfig(),
		control.EnvSocket + "=" + controlSocket,
		"E2E_NODE_NAME=" + Name,
		"E2E_NODE_IP=" + Address,
		"E2E_POD_CIDR=" + podCIDR,
		"E2E_LOGS=" + c.Logs,
	}
}

func (l *Cluster) serveControl(ctx context.Context) (stop func(), err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", controlSocket)
	if err != nil {
		return nil, err
	}
	components := map[string]control.Component{}
	for _, p := range l.processes {
		components[p.name] = p
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { _ = control.Serve(ctx, listener, components) }()
	return cancel, nil
}
