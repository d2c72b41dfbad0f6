package kvm

import (
	"net/netip"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Type is the provider type's name in the configuration.
const Type = "kvm"

const (
	maxHosts     = 256
	maxCatalogue = 256
)

// Config is the entry's `kvm` block.
type Config struct {
	// Hosts are the hypervisors, 1 to 256. Their names are in the IDs of instances: one in use can be neither renamed nor
	// removed.
	Hosts []HostConfig `json:"hosts"`
	// Images and MachineTypes are what a Proxy's placement chooses from, at most 256 each. A change of an entry is one for new
	// instances only; it replaces none.
	Images       map[string]Image       `json:"images"`
	MachineTypes map[string]MachineType `json:"machineTypes"`
	// AddressSources are asked in this order for the address of a domain: lease (the DHCP server of a libvirt network), agent
	// (qemu-guest-agent), arp (the host's neighbour table). Default: lease, agent.
	AddressSources []string `json:"addressSources"`
	// AddressFamily is ipv4, ipv6, or empty for IPv4 where there is one, else IPv6.
	AddressFamily string `json:"addressFamily"`
	// InstallGuestAgent adds vendor data that installs qemu-guest-agent at the first boot, which takes a package mirror.
	InstallGuestAgent bool `json:"installGuestAgent"`
	// Clients are the networks from which, as somebody has seen to, alone the guests can be reached. Without it every Proxy has
	// to have credentials.
	Clients []netip.Prefix `json:"clients"`
}

// HostConfig is one hypervisor.
type HostConfig struct {
	// Name is 1 to 63 characters of a-z, 0-9, '-' and '.'.
	Name string `json:"name"`
	// Region, where set, is what a Proxy's placement.region chooses hosts by.
	Region string `json:"region"`
	// Address is a host name or IP address, with a port where it is not 22. Empty is this machine: Socket is opened directly.
	Address string `json:"address"`
	// User, KeyFile and KnownHostsFile are for SSH. The files are absolute paths, read anew for every connection.
	User           string `json:"user"`
	KeyFile        string `json:"keyFile"`
	KnownHostsFile string `json:"knownHostsFile"`
	// Socket is libvirt's on that host; default /var/run/libvirt/libvirt-sock.
	Socket string `json:"socket"`
	// HostUUID, where set, is compared with the one that the daemon names (virsh capabilities).
	HostUUID string `json:"hostUUID"`
	// Pool is where volumes are made: one of type dir, fs or netfs; default "default".
	Pool string `json:"pool"`
	// Network is a libvirt network, Bridge a bridge of the host's; exactly one of them, "default" being the network when there
	// is neither.
	Network string `json:"network"`
	Bridge  string `json:"bridge"`
}

// Image is a base image.
type Image struct {
	// URL is http or https.
	URL string `json:"url"`
	// SHA256 is the checksum of the file in 64 hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Format is qcow2 (default) or raw.
	Format string `json:"format"`
}

// MachineType is what a guest gets.
type MachineType struct {
	// VCPUs is 1 to 512.
	VCPUs int32 `json:"vcpus"`
	// MemoryMiB is 64 to 16777216.
	MemoryMiB int64 `json:"memoryMiB"`
	// DiskGiB is 1 to 65536. A base image that is larger makes a larger disk.
	DiskGiB int64 `json:"diskGiB"`
	// DomainType is kvm (default), or qemu where the hardware cannot help.
	DomainType string `json:"domainType"`
	// CPUMode is host-passthrough, host-model, maximum or empty for the hypervisor's default. Default with domainType kvm is
	// host-passthrough.
	CPUMode string `json:"cpuMode"`
	// Machine is QEMU's machine type, q35 by default.
	Machine string `json:"machine"`
	// SeedBus is how the guest finds its cloud-init data: virtio (a disk, default), scsi, sata or ide (CD-ROMs). Small cloud
	// kernels lack drivers for the last two; ide needs the machine pc.
	SeedBus string `json:"seedBus"`
}

func decode(block provider.Block) (Config, error) {
	c := Config{}
	if err := block.Decode(&c); err != nil {
		return c, err
	}
	if len(c.AddressSources) == 0 {
		c.AddressSources = []string{sourceLease, sourceAgent}
	}
	for _, check := range []func(provider.Block, *Config) error{checkHosts, checkImages, checkMachineTypes, checkAddresses, checkClients} {
		if err := check(block, &c); err != nil {
			return c, err
		}
	}
	return c, nil
}
