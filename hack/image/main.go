// Command image writes container images without a container engine, a registry or a base image:
//
//	go run ./hack/image operator -o FILE [-arch ARCH] [-version V] [-revision R] [-date D] [-ca FILE]
//	go run ./hack/image operator-index -o FILE [-version V] [-revision R] [-date D] [-ca FILE]
//	go run ./hack/image programs -o FOLDER [-arch ARCH] [-version V] [-revision R] [-date D] [-ca FILE]
//	go run ./hack/image pause -o FILE [-arch ARCH]
//	go run ./hack/image squid -o FILE
//	go run ./hack/image target -o FILE [-arch ARCH]
//
// They have the form of `docker save`, which `docker load`, `kind load image-archive` and `ctr images import` read; the index
// is an OCI image layout with the operator's image for each architecture. The same sources, Go version and CA certificates give
// the same file. programs are what the image has in it of this project: the binaries, and papers about them. All after them are for clusters that tests run:
// squid comes from this host's package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/images"
	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

const known = "operator, operator-index, programs, pause, squid or target"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("which one: " + known)
	}
	f := flag.NewFlagSet("image "+args[0], flag.ContinueOnError)
	out := f.String("o", "", "file to write, folder for programs")
	var o images.OperatorOptions
	arch := func() { f.StringVar(&o.Arch, "arch", runtime.GOARCH, "architecture: amd64 or arm64") }
	stamp := func() {
		f.StringVar(&o.Version, "version", "unknown", "version, which is the tag, too")
		f.StringVar(&o.Revision, "revision", "", "commit")
		f.StringVar(&o.Date, "date", "", "date of the commit, RFC 3339")
	}
	roots := func() {
		f.StringVar(&o.Roots, "ca", "", "PEM file of the CA certificates to trust; Mozilla's when empty")
	}
	operatorTag := func() string { return images.OperatorName + ":" + o.Version }
	var write func() (what string, err error)
	switch args[0] {
	case "operator":
		arch()
		stamp()
		roots()
		write = func() (string, error) {
			return save(*out, operatorTag(), func() (v1.Image, error) { return images.Operator(ctx, o) })
		}
	case "operator-index":
		stamp()
		roots()
		write = func() (string, error) { return saveIndex(ctx, *out, operatorTag(), o) }
	case "programs":
		arch()
		stamp()
		roots()
		write = func() (string, error) {
			if err := os.MkdirAll(*out, 0o755); err != nil {
				return "", err
			}
			return "programs for " + o.Arch, images.Programs(ctx, *out, o)
		}
	case "pause":
		arch()
		write = func() (string, error) {
			return save(*out, images.PauseName, func() (v1.Image, error) { return images.Pause(ctx, o.Arch) })
		}
	case "target":
		arch()
		write = func() (string, error) {
			return save(*out, images.TargetName, func() (v1.Image, error) { return images.Target(ctx, o.Arch) })
		}
	case "squid":
		write = func() (string, error) {
			return save(*out, images.SquidName, func() (v1.Image, error) { return images.Squid(ctx) })
		}
	default:
		return fmt.Errorf("no image %q: %s", args[0], known)
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if *out == "" || f.NArg() > 0 {
		return errors.New("wanted: -o FILE and nothing after the flags")
	}
	what, err := write()
	if err != nil {
		return err
	}
	info, err := os.Stat(*out)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		what += fmt.Sprintf(", %.1f MB", float64(info.Size())/1e6)
	}
	fmt.Fprintf(stdout, "%s: %s\n", *out, what)
	return nil
}

func save(file, tag string, assemble func() (v1.Image, error)) (string, error) {
	img, err := assemble()
	if err != nil {
		return "", err
	}
	if err := layer.Save(file, tag, img); err != nil {
		return "", err
	}
	digest, err := img.ConfigName()
	return fmt.Sprintf("%s, image %s", tag, digest), err
}

func saveIndex(ctx context.Context, file, tag string, o images.OperatorOptions) (string, error) {
	index, err := images.OperatorIndex(ctx, o, "amd64", "arm64")
	if err != nil {
		return "", err
	}
	if err := layer.SaveIndex(file, tag, index); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return fmt.Sprintf("%s for amd64 and arm64, index %s", tag, digest), err
}
