// Command controlplane prepares what tests and the demo run a control plane with.
//
//	go run ./hack/controlplane           prints the folder that holds etcd and kube-apiserver
//	go run ./hack/controlplane -node     prints the folder that holds kubelet, kube-controller-manager, kube-scheduler and kube-proxy
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
)

func main() {
	node := flag.Bool("node", false, "prepare the binaries of a node and its controllers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ensure := assets.Ensure
	if *node {
		ensure = assets.EnsureNode
	}
	dir, err := ensure(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
