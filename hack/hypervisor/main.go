//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/host"
	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
	"github.com/egress-proxies/egress-proxies-operator/hack/needs"
)

func main() {
	if filepath.Base(os.Args[0]) == host.ControlProgram {
		os.Exit(askControl(os.Args[1:]))
	}
	os.Exit(run())
}

// run is this program's life in its three stages: outside, as the first process of the namespaces, and inside of them.
func run() int {
	// The namespaces end with the thread that has made them.
	runtime.LockOSThread()
	needs.CompletePath()
	stage, plan, err := isolation.Inherited[host.Config]()
	if err != nil {
		return fail(err)
	}
	switch stage {
	case isolation.StageInit:
		return first(plan)
	case isolation.StageInside:
		return inside(plan)
	}
	return outside()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "hypervisor:", err)
	return 1
}
