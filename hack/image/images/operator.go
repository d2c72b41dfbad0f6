package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

const (
	// OperatorName is the operator's image without a tag, as the manifests name it.
	OperatorName = "egress-proxies-operator"
	// OperatorUser is who the operator runs as: nobody whom a host knows.
	OperatorUser = "65532:65532"

	programs = "/usr/local/bin"
	// roots is where Go looks first for the certificates it trusts.
	roots = "/etc/ssl/certs/ca-certificates.crt"
)

// OperatorOptions is what goes into the operator's image.
type OperatorOptions struct {
	Arch              string // GOARCH
	Version, Revision string
	// Roots is a file of CA certificates in PEM, with which the operator probes https targets and calls clouds. That of this
	// host when empty.
	Roots string
}

// Operator compiles the operator and the proxy of the provider local, and returns their image. It blocks for as long as
// the compiler takes, minutes where nothing is cached.
func Operator(ctx context.Context, o OperatorOptions) (v1.Image, error) {
	// First what is quickly said to be missing.
	base, err := operatorBase(o.Roots)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, dir, o.Arch, o.Version, "cmd/operator", "cmd/egress-proxy"); err != nil {
		return nil, err
	}
	return operatorImage(o, base, dir)
}

// operatorImage puts the programs that lie in dir on top of the base.
func operatorImage(o OperatorOptions, base v1.Layer, dir string) (v1.Image, error) {
	var entries []layer.Entry
	for _, p := range []string{"operator", "egress-proxy"} {
		entries = append(entries, layer.Copy(path.Join(programs, p), 0o755, filepath.Join(dir, p)))
	}
	top, err := layer.New(entries...)
	if err != nil {
		return nil, err
	}
	return layer.Image(layer.Spec{
		Arch: o.Arch, User: OperatorUser, Entrypoint: []string{programs + "/operator"},
		Env: []string{"PATH=" + programs + ":/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    OperatorName,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  o.Version,
			"org.opencontainers.image.revision": o.Revision,
		},
	}, base, top)
}

// operatorBase is what static programs of Go need around them.
func operatorBase(bundle string) (v1.Layer, error) {
	certificates, err := readRoots(bundle)
	if err != nil {
		return nil, err
	}
	return layer.New(
		layer.File(roots, 0o644, certificates),
		layer.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\noperator:x:65532:65532:operator:/:/sbin/nologin\n")),
		layer.File("/etc/group", 0o644, []byte("root:x:0:\noperator:x:65532:\n")),
		layer.File("/etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")),
		layer.Dir("/tmp", fs.ModeSticky|0o777),
	)
}

// readRoots reads the bundle, or this host's.
func readRoots(bundle string) ([]byte, error) {
	files := []string{bundle}
	if bundle == "" {
		// Debian and Ubuntu, Fedora, openSUSE.
		files = []string{roots, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) && bundle == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		kept, err := onlyCertificates(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		return kept, nil
	}
	return nil, fmt.Errorf("no CA certificates on this host: none of %q is there; install the package ca-certificates or name a file", files)
}
