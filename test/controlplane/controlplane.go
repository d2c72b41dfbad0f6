// Package controlplane runs a real etcd and kube-apiserver for tests.
package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
)

// Start brings a control plane up with this repository's CRDs installed. It blocks until the API server answers, which
// takes some seconds, or minutes where the binaries have to be built first. stop ends both processes.
func Start(ctx context.Context) (cfg *rest.Config, stop func() error, err error) {
	env, err := New(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg, err = env.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("starting the control plane: %w", err)
	}
	// The defaults would throttle a test that writes a thousand objects.
	cfg.QPS, cfg.Burst = 1000, 2000
	return cfg, env.Stop, nil
}

// New returns an environment that is not started yet, with this repository's CRDs.
func New(ctx context.Context) (*envtest.Environment, error) {
	dir, err := assets.Ensure(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	return &envtest.Environment{
		BinaryAssetsDirectory: dir,
		CRDDirectoryPaths:     []string{filepath.Join(repoRoot(), "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}, nil
}

// Main runs the tests of a package against one control plane; run gets its configuration before the tests start.
func Main(m *testing.M, run func(*rest.Config)) {
	os.Exit(runMain(m, run))
}

func runMain(m *testing.M, run func(*rest.Config)) int {
	cfg, stop, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	run(cfg)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
		return 1
	}
	return code
}

func repoRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
