package node

import (
	"context"
	"net"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// Run runs the command in the cluster, with env and what Env adds, and returns its error as os/exec does. When ctx ends,
// the command gets SIGTERM and, after twenty seconds, SIGKILL.
func (l *Cluster) Run(ctx context.Context, env []string) error {
	stop, err := l.serveControl(ctx)
	if err != nil {
		return err
	}
	defer stop()
	err = components.Run(ctx, l.config.Command, append(env, l.config.Env()...))
	components.TellEnds("cluster", l.progress, l.processes...)
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
	served := map[string]control.Component{}
	for _, p := range l.processes {
		served[p.Name] = p
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { _ = control.Serve(ctx, listener, served) }()
	return cancel, nil
}
