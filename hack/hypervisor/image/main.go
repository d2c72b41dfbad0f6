// Command image makes the disk of a guest for hack/hypervisor and prints its file:
//
//	go run ./hack/hypervisor/image [-o FILE]
//
// Debian with cloud-init, Squid and QEMU's guest agent, made to boot fast where the processor is emulated; see package
// guest. It needs root on Linux, the network and Debian's packages that hack/hypervisor/install installs. The file is made
// once and kept in the user's cache folder. Packages come from where this machine's apt gets its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/image/guest"
	"github.com/egress-proxies/egress-proxies-operator/hack/needs"
)

func main() {
	output := flag.String("o", "", "`file` to copy the disk to")
	mirror := flag.String("mirror", "", "`address` of a Debian repository to use instead of those of this machine's apt")
	flag.Parse()
	needs.CompletePath()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	file, err := ensure(ctx, *mirror)
	if err == nil && *output != "" {
		err = copyTo(*output, file)
		file = *output
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	fmt.Println(file)
}

func ensure(ctx context.Context, mirror string) (string, error) {
	file, err := guest.Path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	lack := needs.Missing(guest.Needs, "hack/hypervisor/install")
	if os.Geteuid() != 0 {
		lack = "this takes root: the files in there have owners"
	}
	if lack != "" {
		fmt.Fprintln(os.Stderr, "guest:", lack)
		os.Exit(2)
	}
	return guest.Ensure(ctx, mirror, os.Stderr)
}

// copyTo copies to a file beside the target, which then takes its place.
func copyTo(target, source string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was read only
	out, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it is gone when all went well
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), target)
}
