package main

import (
	"github.com/egress-proxies/egress-proxies-operator/hack/needs"
)

const installer = "hack/cluster/install"

// wanted is what a cluster takes beside the binaries of hack/controlplane. The installer installs it.
var wanted = []needs.Need{
	{Program: "containerd", Package: "containerd"},
	{Program: "containerd-shim-runc-v2", Package: "containerd"},
	{Program: "ctr", Package: "containerd"},
	{Program: "runc", Package: "runc"},
	{Program: "/usr/lib/cni/ptp", Package: "containernetworking-plugins"},
	{Program: "/usr/lib/cni/host-local", Package: "containernetworking-plugins"},
	{Program: "/usr/lib/cni/loopback", Package: "containernetworking-plugins"},
	{Program: "/usr/lib/cni/portmap", Package: "containernetworking-plugins"},
	{Program: "iptables", Package: "iptables"},
	{Program: "iptables-restore", Package: "iptables"},
	{Program: "ip", Package: "iproute2"},
	{Program: "mount", Package: "mount"}, // for the kubelet's volumes
	{Program: "umount", Package: "mount"},
}

// unmet says in one line what this host lacks, "" when nothing.
func unmet() string {
	if lack := needs.Room(); lack != "" {
		return lack
	}
	return needs.Missing(wanted, installer)
}
