//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	os.Exit(run())
}

// run is this program's life in its three stages: outside, as the first process of the namespaces, and inside of them.
func run() int {
	// The namespaces end with the thread that has made them.
	runtime.LockOSThread()
	completePath()
	stage, plan, err := inherited()
	if err != nil {
		return fail(err)
	}
	switch stage {
	case stageInit:
		return first(plan)
	case stageInside:
		return inside(plan)
	}
	return outside()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return 1
}
