package guest

import "github.com/egress-proxies/egress-proxies-operator/hack/needs"

// grubFolder has the parts of a boot loader for BIOS, which is what QEMU has.
const grubFolder = "/usr/lib/grub/i386-pc"

// Needs is what Make takes.
var Needs = []needs.Need{
	{Program: "unshare", Package: "util-linux"},
	{Program: "mmdebstrap", Package: "mmdebstrap"},
	{Program: "mke2fs", Package: "e2fsprogs"},
	{Program: "grub-mkimage", Package: "grub-common"},
	{Program: grubFolder + "/boot.img", Package: "grub-pc-bin"},
	{Program: grubFolder + "/linux.mod", Package: "grub-pc-bin"},
	{Program: "qemu-img", Package: "qemu-utils"},
}
