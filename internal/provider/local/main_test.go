//go:build linux

package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the real egress-proxy, built once.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		os.Exit(help())
	}
	pretend(filepath.Base(os.Args[0]))
	dir, err := os.MkdirTemp("", "epx-local-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "egress-proxy")
	build := exec.Command("go", "build", "-o", binary, "github.com/egress-proxies/egress-proxies-operator/cmd/egress-proxy")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
