package guest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

// Nameserver is whom guests ask for names: an address that a hypervisor's host has.
const Nameserver = "10.77.0.53"

// suite is the release of Debian that guests run.
const suite = "bookworm"

// packages are what guests have, beside what every Debian has.
var packages = []string{
	"linux-image-cloud-amd64", "busybox-static", "kmod", "cpio", // to boot
	"systemd-sysv", "udev", "dbus", "netbase", "iproute2",
	"cloud-init", "qemu-guest-agent", "squid", "openssl", "nftables", // what the sample installs
}

// options of mmdebstrap that belong to the recipe; those of the machine's apt are added.
var options = []string{
	"--variant=essential", "--format=directory",
	"--aptopt=Apt::Install-Recommends \"false\"",
	"--dpkgopt=force-unsafe-io",
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
	// The initrd is our own.
	"--dpkgopt=path-exclude=/etc/kernel/postinst.d/initramfs-tools",
}

// files are what is put into a guest: after holds its configuration, finish is run in there, init is that of the initrd, and
// grub.cfg is the boot loader's.
//
//go:embed all:files
var files embed.FS

// Recipe identifies what guests are made of and how, except for the versions of packages.
func Recipe() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, suite, Nameserver, diskSize, strings.Join(packages, " "), strings.Join(options, " "), strings.Join(modules, " "), strings.Join(makeFilesystem("", ""), " "))
	err := fs.WalkDir(files, "files", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(data), data)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}
