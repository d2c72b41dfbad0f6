package host

import (
	"context"
	"net"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// Run runs the command against the hosts, with env and what Env adds; see components.Run.
func (h *Hosts) Run(ctx context.Context, env []string) error {
	stop, err := h.serveControl(ctx)
	if err != nil {
		return err
	}
	defer stop()
	err = components.Run(ctx, h.config.Command, append(env, h.config.Env()...))
	components.TellEnds("hypervisor", h.progress, h.processes...)
	return err
}

func (h *Hosts) serveControl(ctx context.Context) (stop func(), err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", controlSocket)
	if err != nil {
		return nil, err
	}
	served := map[string]control.Component{}
	for _, p := range h.processes {
		served[p.Name] = p
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { _ = control.Serve(ctx, listener, served) }()
	return cancel, nil
}
