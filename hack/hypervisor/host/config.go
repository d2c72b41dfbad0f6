// Package host runs libvirt hosts, each of virtlogd, libvirtd and an sshd in front of it, as processes of this machine:
// inside of namespaces of their own, for addresses, ports and paths are fixed.
package host

import (
	"fmt"
	"maps"
	"path/filepath"
)

const (
	// private is a folder in the namespaces' /run. Unlike a temporary folder, nobody but root can write to what is above it,
	// as sshd demands of keys.
	private = "/run/hypervisor"
	// programs is where the command finds ControlProgram and the like.
	programs      = private + "/bin"
	controlSocket = private + "/control.sock"

	runLibvirt = "/run/libvirt"
	socketName = "libvirt-sock"
	// images is the pool's folder.
	images = "/var/lib/libvirt/images"
)

// Config says what is to be run. Paths are absolute.
type Config struct {
	// Dir is an empty folder for the disks of guests; all else is in memory.
	Dir string
	// Logs is a folder for one file per component and for libvirt's own of each host.
	Logs string
	// Hosts is how many there are.
	Hosts int
	// Image is the file of a guest's disk, and ImageSHA256 its checksum; both may be empty.
	Image, ImageSHA256 string
	// Command is what runs against the hosts, with its arguments.
	Command []string
}

// ReplacedFolders are those at fixed places that libvirt reads and writes, and what has to be seen there instead. They show
// the first host; the processes of others see theirs there.
func (c Config) ReplacedFolders() map[string]string {
	folders := maps.Clone(c.host(1).folders())
	delete(folders, runLibvirt) // in a /run that is ours already
	return folders
}

// hosts returns all, the first first.
func (c Config) hosts() []host {
	var hosts []host
	for n := range c.Hosts {
		hosts = append(hosts, c.host(n+1))
	}
	return hosts
}

func (c Config) host(n int) host {
	h := host{number: n, images: filepath.Join(c.Dir, fmt.Sprintf("images%d", n)), logs: c.Logs}
	if n > 1 {
		h.suffix = fmt.Sprintf("-%d", n)
	}
	return h
}

// host is one of them.
type host struct {
	number int
	suffix string // of the names of its components, empty for the first
	images string // the folder of its pool, where there is room
	logs   string
}

// folders are those that libvirt knows by fixed paths, and what is seen there. State is in memory: libvirt waits for each of
// its files to be on disk, which takes seconds where others write images there.
func (h host) folders() map[string]string {
	return map[string]string{
		"/etc/libvirt":       h.own("etc"),
		"/var/lib/libvirt":   h.own("lib"),
		images:               h.images,
		"/var/cache/libvirt": h.own("cache"),
		"/var/log/libvirt":   filepath.Join(h.logs, "libvirt"+h.suffix),
		runLibvirt:           h.own("run"),
	}
}

// name is that of the host.
func (h host) name() string { return fmt.Sprintf("host%d", h.number) }

// socket is libvirtd's, as everybody in the namespaces reaches it.
func (h host) socket() string {
	if h.number == 1 {
		return filepath.Join(runLibvirt, socketName)
	}
	return filepath.Join(h.folders()[runLibvirt], socketName)
}

// uri leads virsh there.
func (h host) uri() string { return "qemu:///system?socket=" + h.socket() }

// etc is a file of libvirt's configuration, where it is for us to write.
func (h host) etc(name string) string { return filepath.Join(h.folders()["/etc/libvirt"], name) }

// own is a file or folder that only root reaches, but for what is shown elsewhere.
func (h host) own(name string) string { return filepath.Join(private, h.name(), name) }
