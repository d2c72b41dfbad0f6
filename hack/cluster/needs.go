package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// need is a program that has to be there, and Debian's package with it.
type need struct{ program, pkg string }

// needs is what a cluster takes beside the binaries of hack/controlplane. hack/cluster/install installs it.
var needs = []need{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"/usr/lib/cni/host-local", "containernetworking-plugins"},
	{"/usr/lib/cni/loopback", "containernetworking-plugins"},
	{"/usr/lib/cni/portmap", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"iptables-restore", "iptables"},
	{"ip", "iproute2"},
	{"mount", "mount"}, // for the kubelet's volumes
	{"umount", "mount"},
}

// unmet says in one line what this host lacks, "" when nothing.
func unmet() string {
	if os.Geteuid() != 0 {
		return "this takes root: namespaces, mounts and cgroups are made"
	}
	// Inside, other folders are seen in their places.
	for _, hidden := range []string{"/run", "/var/run", "/var/lib", "/var/log"} {
		if strings.HasPrefix(filepath.Clean(os.TempDir())+"/", hidden+"/") {
			return fmt.Sprintf("TMPDIR=%s cannot be below %s", os.TempDir(), hidden)
		}
	}
	return missing(needs, func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
}

// missing says which of wanted are not there and which packages have them, "" when all are.
func missing(wanted []need, there func(program string) bool) string {
	var programs, packages []string
	for _, n := range wanted {
		if there(n.program) {
			continue
		}
		programs = append(programs, n.program)
		if !slices.Contains(packages, n.pkg) {
			packages = append(packages, n.pkg)
		}
	}
	if len(programs) == 0 {
		return ""
	}
	return fmt.Sprintf("missing: %s; hack/cluster/install installs them (Debian: %s)", strings.Join(programs, ", "), strings.Join(packages, ", "))
}

// completePath lets programs for administrators be found, also by those that we start: not every shell of root looks there.
func completePath() {
	path := filepath.SplitList(os.Getenv("PATH"))
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	_ = os.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
}
