// Package images makes the images of this project from its sources: the operator's, and those with which a test cluster does
// without a registry.
package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

const module = "github.com/egress-proxies/egress-proxies-operator"

// build compiles packages of this module, static and without a trace of the folder or the clock, into dir. The working
// folder has to be inside of the module.
func build(ctx context.Context, dir, arch string, s Stamp, packages ...string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w" + s.ldflags(), "-o", dir + string(filepath.Separator)}
	for _, p := range packages {
		args = append(args, path.Join(module, p))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", arch, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// alone compiles one program of this module and returns an image with nothing else in it, run by nobody in particular.
func alone(ctx context.Context, arch, pkg string) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, dir, arch, Stamp{}, pkg); err != nil {
		return nil, err
	}
	program := path.Base(pkg)
	l, err := layer.New(layer.Copy("/"+program, 0o755, filepath.Join(dir, program)))
	if err != nil {
		return nil, err
	}
	return layer.Image(layer.Spec{Arch: arch, User: "65535:65535", Entrypoint: []string{"/" + program}}, l)
}
