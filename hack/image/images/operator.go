package images

import (
	"context"
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
	Arch string // GOARCH
	Stamp
	// Roots is a file of CA certificates in PEM, with which the operator probes https targets and calls clouds. Mozilla's when
	// empty.
	Roots string
}

// Programs compiles the operator and the proxy of the provider local into dir, and writes their Papers beside them. It blocks
// for as long as the compiler takes, minutes where nothing is cached.
func Programs(ctx context.Context, dir string, o OperatorOptions) error {
	// First what is quickly said to be wrong.
	if err := o.check(); err != nil {
		return err
	}
	certificates, err := readRoots(o.Roots)
	if err != nil {
		return err
	}
	if err := build(ctx, dir, o.Arch, o.Stamp, "cmd/operator", "cmd/egress-proxy"); err != nil {
		return err
	}
	return describe(ctx, dir, o.Stamp, certificates)
}

// Operator returns the image of what Programs makes. It blocks as long.
func Operator(ctx context.Context, o OperatorOptions) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "operator-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := Programs(ctx, dir, o); err != nil {
		return nil, err
	}
	return operatorImage(o, dir)
}

// operatorImage puts the programs and papers that lie in dir on top of what they need around them.
func operatorImage(o OperatorOptions, dir string) (v1.Image, error) {
	certificates, err := readRoots(o.Roots)
	if err != nil {
		return nil, err
	}
	base, err := operatorBase(certificates)
	if err != nil {
		return nil, err
	}
	var entries []layer.Entry
	for _, p := range []string{"operator", "egress-proxy"} {
		entries = append(entries, layer.Copy(path.Join(programs, p), 0o755, filepath.Join(dir, p)))
	}
	for _, p := range Papers() {
		entries = append(entries, layer.Copy(path.Join(papers, p), 0o644, filepath.Join(dir, p)))
	}
	top, err := layer.New(entries...)
	if err != nil {
		return nil, err
	}
	created, err := o.created()
	if err != nil {
		return nil, err
	}
	labels := o.labels()
	return layer.Image(layer.Spec{
		Created: created, Labels: labels, Annotations: labels,
		Arch: o.Arch, User: OperatorUser, Entrypoint: []string{programs + "/operator"},
		Env: []string{"PATH=" + programs + ":/usr/bin:/bin"},
	}, base, top)
}

// OperatorIndex is the operator's image for each of the architectures.
func OperatorIndex(ctx context.Context, o OperatorOptions, archs ...string) (v1.ImageIndex, error) {
	var all []v1.Image
	for _, arch := range archs {
		o.Arch = arch
		img, err := Operator(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, img)
	}
	return layer.Index(o.labels(), all...)
}

// operatorBase is what static programs of Go need around them.
func operatorBase(certificates []byte) (v1.Layer, error) {
	return layer.New(
		layer.File(roots, 0o644, certificates),
		layer.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\noperator:x:65532:65532:operator:/:/sbin/nologin\n")),
		layer.File("/etc/group", 0o644, []byte("root:x:0:\noperator:x:65532:\n")),
		layer.File("/etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")),
		layer.Dir("/tmp", fs.ModeSticky|0o777),
	)
}
