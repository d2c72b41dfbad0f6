// Package assets finds, downloads or builds the binaries of a control plane (etcd and kube-apiserver) and, for tests on a
// real cluster, those of a node.
package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
)

// EnvDir names the variable that, when set, points at ready binaries of the control plane; nothing is downloaded or built
// then.
const EnvDir = "KUBEBUILDER_ASSETS"

// Ensure returns a folder that holds etcd and kube-apiserver. In order: the folder named by KUBEBUILDER_ASSETS; this
// user's cache; a ready-made download; a build from the Go modules pinned in hack/controlplane/build, which takes about
// five minutes on two cores, once. Progress in words goes to progress. It blocks until the binaries are there; several
// processes may call it at the same time and one does the work.
func Ensure(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		if missing := missingIn(dir, controlPlane); missing != "" {
			return "", fmt.Errorf("%s=%q: no executable %s there", EnvDir, dir, missing)
		}
		return dir, nil
	}
	m, err := findBuildModule(ctx)
	if err != nil {
		return "", err
	}
	folder := fmt.Sprintf("%s-etcd%s-%s-%s", m.kubernetes, m.etcd, runtime.GOOS, runtime.GOARCH)
	return prepare(ctx, folder, controlPlane, progress, func(dir string) error {
		err := download(ctx, m, dir, progress)
		if err == nil {
			return nil
		}
		fmt.Fprintf(progress, "controlplane: no ready-made download (%v); building from Go modules, once\n", err)
		return m.run(ctx, controlPlane, dir, progress)
	})
}

// EnsureNode returns a folder that holds kubelet, kube-controller-manager, kube-scheduler and kube-proxy, of the version of
// Ensure's kube-apiserver. They come from this user's cache or from Go modules alone: setup-envtest has none of them. On two
// cores and after Ensure has built, they take about five minutes, once. Otherwise as Ensure.
func EnsureNode(ctx context.Context, progress io.Writer) (string, error) {
	m, err := findBuildModule(ctx)
	if err != nil {
		return "", err
	}
	folder := fmt.Sprintf("node-%s-%s-%s", m.kubernetes, runtime.GOOS, runtime.GOARCH)
	return prepare(ctx, folder, node, progress, func(dir string) error {
		return m.run(ctx, node, dir, progress)
	})
}

// EnsureKubectl returns a folder that holds kubectl, of the version of Ensure's kube-apiserver: what distributions package can be
// too old to talk to it. It comes from this user's cache or from Go modules alone, which takes about a minute, once. Otherwise
// as Ensure.
func EnsureKubectl(ctx context.Context, progress io.Writer) (string, error) {
	m, err := findBuildModule(ctx)
	if err != nil {
		return "", err
	}
	folder := fmt.Sprintf("kubectl-%s-%s-%s", m.kubernetes, runtime.GOOS, runtime.GOARCH)
	return prepare(ctx, folder, kubectl, progress, func(dir string) error {
		return m.run(ctx, kubectl, dir, progress)
	})
}
