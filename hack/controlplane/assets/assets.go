// Package assets finds, downloads or builds the binaries of a control plane: etcd and kube-apiserver.
package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// EnvDir names the variable that, when set, points at ready binaries; nothing is downloaded or built then.
const EnvDir = "KUBEBUILDER_ASSETS"

// Ensure returns a folder that holds etcd and kube-apiserver. In order: the folder named by KUBEBUILDER_ASSETS; this
// user's cache; a ready-made download; a build from the Go modules pinned in hack/controlplane/build, which takes about
// five minutes on two cores, once. Progress in words goes to progress. It blocks until the binaries are there; several
// processes may call it at the same time and one does the work.
func Ensure(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		if missing := missingIn(dir); missing != "" {
			return "", fmt.Errorf("%s=%q: no executable %s there", EnvDir, dir, missing)
		}
		return dir, nil
	}
	build, err := findBuildModule(ctx)
	if err != nil {
		return "", err
	}
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	dir := filepath.Join(root, "egress-proxies-operator", "controlplane",
		fmt.Sprintf("%s-etcd%s-%s-%s", build.kubernetes, build.etcd, runtime.GOOS, runtime.GOARCH))
	if missingIn(dir) == "" {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if missingIn(dir) == "" { // another process was faster
		return dir, nil
	}
	tmp := dir + ".partial"
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	if err := download(ctx, build, tmp, progress); err != nil {
		fmt.Fprintf(progress, "controlplane: no ready-made download (%v); building from Go modules, once\n", err)
		if err := build.run(ctx, tmp, progress); err != nil {
			return "", err
		}
	}
	if missing := missingIn(tmp); missing != "" {
		return "", fmt.Errorf("the control plane was prepared in %s, yet %s is missing there", tmp, missing)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(tmp, dir)); err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "controlplane: ready in %s\n", dir)
	return dir, nil
}

// missingIn returns the name of the first binary that dir lacks, "" when it has them all.
func missingIn(dir string) string {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return name
		}
	}
	return ""
}

// lock takes an exclusive lock on path, waiting as long as it takes: the holder may be building.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// goCommand returns a go command that runs in dir with the caller's environment.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := goCommand(ctx, dir, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
