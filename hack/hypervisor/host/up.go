//go:build linux

package host

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// Up brings the hosts up and returns when each takes domains and connections. Progress, in words and seconds, goes to
// progress. Nothing is ever stopped here: processes end with their namespaces.
func Up(ctx context.Context, c Config, progress io.Writer) (*Hosts, error) {
	all := &Hosts{config: c, progress: progress}
	if err := errors.Join(os.MkdirAll(programs, 0o755), showUnlocked(), linkControl(), addNameserver(), openKVM()); err != nil {
		return all, err
	}
	report := components.NewReport("hypervisor", progress)
	var steps []components.Step
	var define []func(context.Context) error
	for _, h := range c.hosts() {
		if err := errors.Join(h.writeSSHD(), h.writeLibvirt(), h.writeEnter()); err != nil {
			return all, err
		}
		virtlogd, libvirtd, sshd := h.virtlogd(), h.libvirtd(), h.sshd()
		all.processes = append(all.processes, virtlogd, libvirtd, sshd)
		define = append(define, h.define)
		steps = append(steps,
			components.Step{Name: "libvirt on " + h.name(), Do: components.InOrder(virtlogd.Start, libvirtd.Start)},
			components.Step{Name: "sshd on " + h.name(), Do: sshd.Start},
		)
	}
	if err := report.Together(ctx, steps...); err != nil {
		return all, err
	}
	// Not at the same time: each libvirtd makes the same chains of iptables where they are not there yet.
	return all, report.Together(ctx, components.Step{Name: "networks and pools", Do: components.InOrder(define...)})
}

// linkControl lets a shell call this program as ControlProgram.
func linkControl() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Symlink(self, filepath.Join(programs, ControlProgram))
}
