package kvm

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
)

var (
	hostName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	libvirtName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)
	bridgeName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)
	userName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$`)
	checksum    = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	catalogueID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
)

func checkHosts(block provider.Block, c *Config) error {
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		return block.Errorf("hosts", "%d of them: want 1 to %d", len(c.Hosts), maxHosts)
	}
	seen, reached, known := map[string]bool{}, map[string]string{}, map[string]string{}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		key := func(name string) string { return fmt.Sprintf("hosts[%d].%s", i, name) }
		if !hostName.MatchString(h.Name) {
			return block.Errorf(key("name"), "%s: want 1 to 63 characters of a-z, 0-9, '-' and '.', with a letter or digit at both ends", shown(h.Name))
		}
		if seen[h.Name] {
			return block.Errorf(key("name"), "%s: there is another host of this name", shown(h.Name))
		}
		seen[h.Name] = true
		setDefault(&h.Socket, dial.DefaultSocket)
		setDefault(&h.Pool, "default")
		if h.Bridge == "" {
			setDefault(&h.Network, "default")
		}
		if err := checkReach(block, key, h); err != nil {
			return err
		}
		switch {
		case h.Region != "" && !catalogueID.MatchString(h.Region):
			return block.Errorf(key("region"), "%s: want 1 to 63 characters of letters, digits, '.', '_' and '-'", shown(h.Region))
		case !libvirtName.MatchString(h.Pool):
			return block.Errorf(key("pool"), "%s: want the name of a storage pool", shown(h.Pool))
		case h.Bridge != "" && h.Network != "":
			return block.Errorf(key("bridge"), "%s: there is a network, too; want one of both", shown(h.Bridge))
		case h.Bridge != "" && !bridgeName.MatchString(h.Bridge):
			return block.Errorf(key("bridge"), "%s: want the name of a bridge, at most 15 characters", shown(h.Bridge))
		case h.Network != "" && !libvirtName.MatchString(h.Network):
			return block.Errorf(key("network"), "%s: want the name of a libvirt network", shown(h.Network))
		}
		if h.HostUUID != "" {
			id, err := uuid.Parse(h.HostUUID)
			if err != nil {
				return block.Errorf(key("hostUUID"), "%s: want a UUID", shown(h.HostUUID))
			}
			h.HostUUID = id.String()
			if other, ok := known[h.HostUUID]; ok {
				return block.Errorf(key("hostUUID"), "%s: host %s has it, too; instances of one would be taken for the other's", shown(h.HostUUID), other)
			}
			known[h.HostUUID] = h.Name
		}
		way := strings.ToLower(h.Address) + " " + h.Socket
		if other, ok := reached[way]; ok {
			return block.Errorf(key("address"), "%s: host %s is reached there, too; instances of one would be taken for the other's", shown(h.Address), other)
		}
		reached[way] = h.Name
	}
	return nil
}

// checkReach judges how a host is reached.
func checkReach(block provider.Block, key func(string) string, h *HostConfig) error {
	if !filepath.IsAbs(h.Socket) || len(h.Socket) > 107 {
		return block.Errorf(key("socket"), "%s: want an absolute path of at most 107 characters", shown(h.Socket))
	}
	if h.Address == "" {
		for _, of := range []struct{ name, value string }{{"user", h.User}, {"keyFile", h.KeyFile}, {"knownHostsFile", h.KnownHostsFile}} {
			if of.value != "" {
				return block.Errorf(key(of.name), "it is for SSH, and there is no address")
			}
		}
		return nil
	}
	if !addressable(h.Address) {
		return block.Errorf(key("address"), "%s: want a host name or an IP address, with :port where it is not 22", shown(h.Address))
	}
	if !userName.MatchString(h.User) {
		if strings.Contains(h.User, ":") {
			return block.Errorf(key("user"), "want the name of a user on the host, without a password")
		}
		return block.Errorf(key("user"), "%s: want the name of a user on the host", shown(h.User))
	}
	if !filepath.IsAbs(h.KeyFile) {
		return block.Errorf(key("keyFile"), "%s: want an absolute path", shown(h.KeyFile))
	}
	if !filepath.IsAbs(h.KnownHostsFile) {
		return block.Errorf(key("knownHostsFile"), "%s: want an absolute path; without it any host could pose as this one", shown(h.KnownHostsFile))
	}
	return nil
}

var dnsName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?$`)

// addressable takes what package dial does, and of names only those that DNS could have.
func addressable(address string) bool {
	host, err := dial.Host(address)
	if err != nil {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(host) <= 253 && dnsName.MatchString(host)
}

func checkImages(block provider.Block, c *Config) error {
	if len(c.Images) > maxCatalogue {
		return block.Errorf("images", "%d of them: at most %d are allowed", len(c.Images), maxCatalogue)
	}
	for _, name := range sorted(c.Images) {
		key, img := "images."+name, c.Images[name]
		setDefault(&img.Format, "qcow2")
		img.SHA256 = strings.ToLower(img.SHA256)
		u, err := url.Parse(img.URL)
		switch {
		case !catalogueID.MatchString(name):
			return block.Errorf("images", "%s: want names of 1 to 63 characters of letters, digits, '.', '_' and '-'", shown(name))
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", len(img.URL) > 2048:
			// The URL may hold a password.
			return block.Errorf(key+".url", "want an http or https URL of at most 2048 characters")
		case !checksum.MatchString(img.SHA256):
			return block.Errorf(key+".sha256", "%s: want 64 hexadecimal digits", shown(img.SHA256))
		case img.Format != "qcow2" && img.Format != "raw":
			return block.Errorf(key+".format", "%s: want qcow2 or raw", shown(img.Format))
		}
		c.Images[name] = img
	}
	return nil
}

func checkMachineTypes(block provider.Block, c *Config) error {
	if len(c.MachineTypes) > maxCatalogue {
		return block.Errorf("machineTypes", "%d of them: at most %d are allowed", len(c.MachineTypes), maxCatalogue)
	}
	for _, name := range sorted(c.MachineTypes) {
		key, m := "machineTypes."+name, c.MachineTypes[name]
		setDefault(&m.DomainType, "kvm")
		if m.DomainType == "kvm" {
			setDefault(&m.CPUMode, "host-passthrough")
		}
		setDefault(&m.Machine, "q35")
		setDefault(&m.SeedBus, busVirtio)
		isPC := m.Machine == "pc" || strings.HasPrefix(m.Machine, "pc-i440fx")
		switch {
		case !catalogueID.MatchString(name):
			return block.Errorf("machineTypes", "%s: want names of 1 to 63 characters of letters, digits, '.', '_' and '-'", shown(name))
		case m.VCPUs < 1 || m.VCPUs > 512:
			return block.Errorf(key+".vcpus", "%d: want 1 to 512", m.VCPUs)
		case m.MemoryMiB < 64 || m.MemoryMiB > 16<<20:
			return block.Errorf(key+".memoryMiB", "%d: want 64 to %d", m.MemoryMiB, 16<<20)
		case m.DiskGiB < 1 || m.DiskGiB > 65536:
			return block.Errorf(key+".diskGiB", "%d: want 1 to 65536", m.DiskGiB)
		case m.DomainType != "kvm" && m.DomainType != "qemu":
			return block.Errorf(key+".domainType", "%s: want kvm or qemu", shown(m.DomainType))
		case !slices.Contains([]string{"", "host-passthrough", "host-model", "maximum"}, m.CPUMode):
			return block.Errorf(key+".cpuMode", "%s: want host-passthrough, host-model or maximum", shown(m.CPUMode))
		case m.CPUMode == "host-passthrough" && m.DomainType != "kvm":
			return block.Errorf(key+".cpuMode", "%s: only with domainType kvm", shown(m.CPUMode))
		case !libvirtName.MatchString(m.Machine):
			return block.Errorf(key+".machine", "%s: want a machine type of QEMU, such as q35 or pc", shown(m.Machine))
		case !slices.Contains([]string{busVirtio, busSCSI, busSATA, busIDE}, m.SeedBus):
			return block.Errorf(key+".seedBus", "%s: want virtio, scsi, sata or ide", shown(m.SeedBus))
		case m.SeedBus == busIDE && !isPC:
			return block.Errorf(key+".seedBus", "%s: the machine %s has no such bus, pc has", shown(m.SeedBus), m.Machine)
		case m.SeedBus == busSATA && isPC:
			return block.Errorf(key+".seedBus", "%s: the machine %s has no such bus, q35 has", shown(m.SeedBus), m.Machine)
		}
		c.MachineTypes[name] = m
	}
	return nil
}

func checkAddresses(block provider.Block, c *Config) error {
	for i, s := range c.AddressSources {
		if !slices.Contains([]string{sourceLease, sourceAgent, sourceARP}, s) || slices.Contains(c.AddressSources[:i], s) {
			return block.Errorf(fmt.Sprintf("addressSources[%d]", i), "%s: want lease, agent and arp, each once at most", shown(s))
		}
	}
	if !slices.Contains([]string{"", "ipv4", "ipv6"}, c.AddressFamily) {
		return block.Errorf("addressFamily", "%s: want ipv4 or ipv6", shown(c.AddressFamily))
	}
	if len(c.AddressSources) > 1 || c.AddressSources[0] != sourceLease {
		return nil
	}
	for i := range c.Hosts {
		if c.Hosts[i].Bridge != "" {
			return block.Errorf("addressSources", "only leases, which host %s with its bridge does not have: add agent or arp", c.Hosts[i].Name)
		}
	}
	return nil
}

func checkClients(block provider.Block, c *Config) error {
	if len(c.Clients) > 1024 {
		return block.Errorf("clients", "%d of them: at most 1024 are allowed", len(c.Clients))
	}
	for i, p := range c.Clients {
		if err := provider.CheckClients(p); err != nil {
			return block.Errorf(fmt.Sprintf("clients[%d]", i), "%v", err)
		}
	}
	return nil
}

// shown quotes a value that is not what it should be, unless it looks as if a password or a key was put there.
func shown(value string) string {
	if len(value) > 300 || strings.ContainsAny(value, "@\n\r") || strings.Contains(value, "://") || strings.Contains(value, "-----BEGIN") {
		return "what stands there, which is not shown,"
	}
	return strconv.Quote(value)
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
