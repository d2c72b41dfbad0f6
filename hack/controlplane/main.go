// Command controlplane prepares what tests and the demo run a control plane with.
//
//	go run ./hack/controlplane           prints the folder that holds etcd and kube-apiserver
//	go run ./hack/controlplane -node     prints the folder that holds kubelet, kube-controller-manager, kube-scheduler and kube-proxy
//	go run ./hack/controlplane -kubectl  prints the folder that holds kubectl
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
	kubectl := flag.Bool("kubectl", false, "prepare kubectl")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ensure := assets.Ensure
	switch {
	case *node && *kubectl:
		fmt.Fprintln(os.Stderr, "controlplane: -node and -kubectl are two folders: ask for one of them")
		os.Exit(2)
	case *node:
		ensure = assets.EnsureNode
	case *kubectl:
		ensure = assets.EnsureKubectl
	}
	dir, err := ensure(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
