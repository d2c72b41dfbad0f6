// Command image writes container images in the form of `docker save`, without a container engine, a registry or a base
// image:
//
//	go run ./hack/image operator -o FILE [-arch ARCH] [-version V] [-revision R] [-ca FILE]
//	go run ./hack/image pause -o FILE [-arch ARCH]
//	go run ./hack/image squid -o FILE
//	go run ./hack/image target -o FILE [-arch ARCH]
//
// `docker load`, `kind load image-archive` and `ctr images import` read them. The same sources, Go version and CA
// certificates give the same file. All but the first are for clusters that tests run: squid comes from this host's package.
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
		return errors.New("which one: operator, pause, squid or target")
	}
	f := flag.NewFlagSet("image "+args[0], flag.ContinueOnError)
	out := f.String("o", "", "file to write")
	var o images.OperatorOptions
	var tag string
	var assemble func() (v1.Image, error)
	arch := func() { f.StringVar(&o.Arch, "arch", runtime.GOARCH, "architecture: amd64 or arm64") }
	switch args[0] {
	case "operator":
		arch()
		f.StringVar(&o.Version, "version", "unknown", "version, which is the tag, too")
		f.StringVar(&o.Revision, "revision", "unknown", "commit")
		f.StringVar(&o.Roots, "ca", "", "PEM file of the CA certificates to trust; this host's when empty")
		assemble = func() (v1.Image, error) { return images.Operator(ctx, o) }
	case "pause":
		arch()
		tag, assemble = images.PauseName, func() (v1.Image, error) { return images.Pause(ctx, o.Arch) }
	case "target":
		arch()
		tag, assemble = images.TargetName, func() (v1.Image, error) { return images.Target(ctx, o.Arch) }
	case "squid":
		tag, assemble = images.SquidName, func() (v1.Image, error) { return images.Squid(ctx) }
	default:
		return fmt.Errorf("no image %q: operator, pause, squid or target", args[0])
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if *out == "" || f.NArg() > 0 {
		return errors.New("wanted: -o FILE and nothing after the flags")
	}
	if tag == "" {
		tag = images.OperatorName + ":" + o.Version
	}
	img, err := assemble()
	if err != nil {
		return err
	}
	if err := layer.Save(*out, tag, img); err != nil {
		return err
	}
	digest, err := img.ConfigName()
	if err != nil {
		return err
	}
	info, err := os.Stat(*out)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s, image %s, %.1f MB\n", *out, tag, digest, float64(info.Size())/1e6)
	return nil
}
