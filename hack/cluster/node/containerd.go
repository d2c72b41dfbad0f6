package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// cniPlugins is where Debian's package containernetworking-plugins puts them.
const cniPlugins = "/usr/lib/cni"

func (c Config) containerd() *components.Process {
	return &components.Process{
		Name: "containerd", Path: "containerd", Logs: c.Logs,
		Args:  []string{"--config", c.path("containerd.toml")},
		Ready: func(ctx context.Context) error { return ctr(ctx, "version") },
	}
}

// ctr runs containerd's command against our containerd, on the images that the kubelet sees.
func ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket, "--namespace", "k8s.io"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", args[0], err, out)
	}
	return nil
}

// containerdConfig is for containerd 1.6 and 1.7 with runc; sandbox is the name of the image that holds a Pod's namespaces.
func (c Config) containerdConfig(sandbox, snapshotter string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
# Kernel modules and devices of this host that nobody needs here.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = %q

[plugins."io.containerd.internal.v1.opt"]
path = %q

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
# Without it runc fails where this host does not let a process lower its score: "can't get final child's PID".
restrict_oom_score_adj = true
# A profile would stay loaded in the host's kernel.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = %q

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
`, c.path("containerd"), containerdSocket, c.path("opt"), sandbox, snapshotter, cniPlugins, c.path("cni"))
}

// overlayMagic marks an overlay in statfs (man 2 statfs).
const overlayMagic = 0x794c7630

// snapshotter names the one that works in dir: overlays on top of an overlay, a container's own root, do not.
func snapshotter(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("statfs %s: %w", dir, err)
	}
	if uint32(fs.Type) == overlayMagic {
		return "native", nil
	}
	return "overlayfs", nil
}

// writeContainerd writes the configurations of containerd and of the Pods' network.
func (c Config) writeContainerd() error {
	sandbox, err := imageName(c.Pause)
	if err != nil {
		return err
	}
	kind, err := snapshotter(c.Dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path("containerd.toml"), []byte(c.containerdConfig(sandbox, kind)), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("cni"), 0o755); err != nil {
		return err
	}
	return writeJSON(c.path("cni", "10-pods.conflist"), podNetwork())
}
