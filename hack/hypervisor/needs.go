package main

import (
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/image/guest"
	"github.com/egress-proxies/egress-proxies-operator/hack/needs"
)

const installer = "hack/hypervisor/install"

// wanted is what a hypervisor takes. The installer installs it.
var wanted = []needs.Need{
	{Program: "libvirtd", Package: "libvirt-daemon-system"},
	{Program: "virtlogd", Package: "libvirt-daemon-system"},
	{Program: "virsh", Package: "libvirt-clients"},
	{Program: "qemu-system-x86_64", Package: "qemu-system-x86"},
	{Program: "qemu-img", Package: "qemu-utils"},
	{Program: "dnsmasq", Package: "dnsmasq-base"},
	{Program: "sshd", Package: "openssh-server"},
	{Program: "iptables", Package: "iptables"},
	{Program: "ip", Package: "iproute2"},
	{Program: "mount", Package: "mount"},
	{Program: "unshare", Package: "util-linux"},
}

// unmet says in one line what this host lacks, "" when nothing. Guests are made elsewhere: for their image nothing is asked
// unless all is.
func unmet(all bool) string {
	if lack := needs.Room(); lack != "" {
		return lack
	}
	if all {
		return needs.Missing(everything(), installer)
	}
	return needs.Missing(wanted, installer)
}

// everything is wanted and what a guest's image takes.
func everything() []needs.Need {
	needed := slices.Clone(wanted)
	for _, n := range guest.Needs {
		if !slices.Contains(needed, n) {
			needed = append(needed, n)
		}
	}
	return needed
}
