//go:build !linux

package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintln(os.Stderr, "cluster: this takes Linux, not", runtime.GOOS)
	os.Exit(2)
}
