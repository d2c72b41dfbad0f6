//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/host"
)

// askControl is the life of this program that a shell inside knows as kvm-control.
func askControl(args []string) int {
	socket := os.Getenv(host.EnvControl)
	if len(args) != 2 || socket == "" {
		fmt.Fprintln(os.Stderr, "usage, inside of hack/hypervisor: "+host.ControlProgram+" stop|kill|start|pause|resume COMPONENT")
		return misuse
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := control.At(socket).Ask(ctx, args[0], args[1]); err != nil {
		return fail(err)
	}
	return 0
}
