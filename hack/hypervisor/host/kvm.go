//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/hack/isolation"
)

// openKVM lets QEMU's user have /dev/kvm, where there is one, as udev and a group do on a machine that is a hypervisor. When
// only root has it, libvirtd finds it when it asks QEMU, misses it when it checks the answer, and asks again: a hundred times
// for each domain.
func openKVM() error {
	const file = "/dev/kvm"
	var machines unix.Stat_t
	if err := unix.Stat(file, &machines); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("looking at %s: %w", file, err)
	}
	// A filesystem of its own: /run takes no devices, and /dev is the machine's.
	dir := filepath.Join(private, "dev")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755"); err != nil {
		return fmt.Errorf("mounting a folder for devices: %w", err)
	}
	ours := filepath.Join(dir, "kvm")
	if err := unix.Mknod(ours, unix.S_IFCHR|0o666, int(machines.Rdev)); err != nil {
		return fmt.Errorf("making %s: %w", ours, err)
	}
	if err := os.Chmod(ours, 0o666); err != nil {
		return err
	}
	return isolation.Bind(ours, file)
}
