// Command controlplane prepares the control plane that tests and the demo run.
//
//	go run ./hack/controlplane     prints the folder that holds etcd and kube-apiserver
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := assets.Ensure(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
