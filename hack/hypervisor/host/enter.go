package host

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// component returns a process of the host's. All but the first host's see its folders in the fixed places.
func (h host) component(program string, args ...string) *components.Process {
	p := &components.Process{Name: program + h.suffix, Path: program, Args: args, Logs: h.logs}
	if h.number > 1 {
		p.Path, p.Args = h.enter(), append([]string{program}, args...)
	}
	return p
}

// enter is the script that runs a command as on a host other than the first.
func (h host) enter() string { return filepath.Join(programs, "kvm-on"+h.suffix) }

// writeEnter makes that script. Each run gets mounts of its own, of the same folders; the process that it becomes is the
// one that was started.
func (h host) writeEnter() error {
	if h.number == 1 {
		return nil
	}
	var script strings.Builder
	fmt.Fprintf(&script, "#!/bin/sh\n# Runs a command as on %s.\nexec unshare --mount --uts sh -euc '\n", h.name())
	folders := h.folders()
	for _, folder := range slices.Sorted(maps.Keys(folders)) { // those inside of others after these
		fmt.Fprintf(&script, "mount --bind %q %q\n", folders[folder], folder)
	}
	fmt.Fprintf(&script, "echo %s >/proc/sys/kernel/hostname\nexec \"$@\"' sh \"$@\"\n", h.name())
	return os.WriteFile(h.enter(), []byte(script.String()), 0o755)
}

// lookPath finds a program that wants to be started by its full path.
func lookPath(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	return program
}
