package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func (h host) virtlogd() *components.Process {
	p := h.component("virtlogd", "-p", h.pidFile("virtlogd"))
	p.Ready = func(context.Context) error {
		_, err := os.Stat(filepath.Join(filepath.Dir(h.socket()), "virtlogd-sock"))
		return err
	}
	return p
}

func (h host) libvirtd() *components.Process {
	p := h.component("libvirtd", "-p", h.pidFile("libvirtd"))
	// Connections are served when all drivers have been started, and have looked after domains that run.
	p.Ready = func(ctx context.Context) error { return h.virsh(ctx, "nodeinfo") }
	return p
}

// pidFile is beside those of other hosts; the default ones are one for all.
func (h host) pidFile(component string) string {
	return filepath.Join(private, component+h.suffix+".pid")
}

// virsh runs a command against the host's libvirtd.
func (h host) virsh(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "virsh", append([]string{"--quiet", "-c", h.uri()}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("virsh %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// libvirtdConfig leaves access to the socket to its owner, root: there is nobody to ask polkit.
func (h host) libvirtdConfig() string {
	return fmt.Sprintf(`unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
# Otherwise that of the machine, which is one for all hosts.
host_uuid = "e9a30000-5d0c-4ea1-8b1f-%012d"
`, h.number)
}

// qemuConfig does without what the namespaces lack; QEMU still runs as a user of its own.
const qemuConfig = `security_driver = "none"
namespaces = [ ]
`

// writeLibvirt makes the folders and the configuration. Everything else there libvirt makes itself.
func (h host) writeLibvirt() error {
	var errs []error
	folders := h.folders()
	for _, folder := range folders {
		errs = append(errs, os.MkdirAll(folder, 0o755))
	}
	errs = append(errs,
		os.MkdirAll(filepath.Join(folders["/var/lib/libvirt"], filepath.Base(images)), 0o755),
		os.MkdirAll(runLibvirt, 0o755),
		os.MkdirAll(filepath.Join(folders["/var/log/libvirt"], "qemu"), 0o755), // for consoles of domains, too
		os.WriteFile(h.etc("libvirtd.conf"), []byte(h.libvirtdConfig()), 0o644),
		os.WriteFile(h.etc("qemu.conf"), []byte(qemuConfig), 0o600),
		os.WriteFile(h.etc("virtlogd.conf"), nil, 0o600),
		os.WriteFile(h.etc("libvirt.conf"), []byte("uri_default = \"qemu:///system\"\n"), 0o644),
	)
	return errors.Join(errs...)
}
