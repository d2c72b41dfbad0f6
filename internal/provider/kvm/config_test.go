package kvm_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// parse decodes a block.
func parse(t *testing.T, text string) (kvm.Config, error) {
	t.Helper()
	b, err := registry.ParseBlock(kvm.Type, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := kvm.Decode(b)
	if err == nil {
		p, e := kvm.New(t.Context(), provider.Options{Name: "test", Block: b, Owner: owner})
		if e != nil {
			t.Fatal(e)
		}
		if e := p.(*kvm.Provider).Close(); e != nil {
			t.Error(e)
		}
	}
	return c, err
}

const sha = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// complete has every key.
const complete = `
hosts:
- name: hv1.rack-2
  region: eu-1
  address: hv1.example.com:2222
  user: egress
  keyFile: /etc/kvm-ssh/id_ed25519
  knownHostsFile: /etc/kvm-ssh/known_hosts
  socket: /run/libvirt/virtqemud-sock
  hostUUID: 4C4C4544-0042-4810-8054-B7C04F4A3232
  pool: proxies
  network: egress
- {name: local, bridge: br0}
images:
  debian-12: {url: "https://user:hunter2@images.example.com/debian.qcow2", sha256: ` + sha + `, format: qcow2}
  raw: {url: "http://images.example.com/raw", sha256: ` + sha + `, format: raw}
machineTypes:
  small: {vcpus: 1, memoryMiB: 1024, diskGiB: 10, domainType: kvm, cpuMode: host-model, machine: q35, seedBus: sata}
  old: {vcpus: 512, memoryMiB: 16777216, diskGiB: 65536, domainType: qemu, cpuMode: maximum, machine: pc-i440fx-7.2, seedBus: ide}
addressSources: [lease, agent, arp]
addressFamily: ipv4
installGuestAgent: true
clients: [192.0.2.0/24, "2001:db8::/32"]
`

func TestACompleteConfiguration(t *testing.T) {
	c, err := parse(t, complete)
	if err != nil {
		t.Fatal(err)
	}
	want := kvm.Config{
		Hosts: []kvm.HostConfig{
			{
				Name: "hv1.rack-2", Region: "eu-1", Address: "hv1.example.com:2222", User: "egress", KeyFile: "/etc/kvm-ssh/id_ed25519",
				KnownHostsFile: "/etc/kvm-ssh/known_hosts", Socket: "/run/libvirt/virtqemud-sock", HostUUID: "4c4c4544-0042-4810-8054-b7c04f4a3232",
				Pool: "proxies", Network: "egress",
			},
			{Name: "local", Socket: "/var/run/libvirt/libvirt-sock", Pool: "default", Bridge: "br0"},
		},
		Images: map[string]kvm.Image{
			"debian-12": {URL: "https://user:hunter2@images.example.com/debian.qcow2", SHA256: sha, Format: "qcow2"},
			"raw":       {URL: "http://images.example.com/raw", SHA256: sha, Format: "raw"},
		},
		MachineTypes: map[string]kvm.MachineType{
			"small": {VCPUs: 1, MemoryMiB: 1024, DiskGiB: 10, DomainType: "kvm", CPUMode: "host-model", Machine: "q35", SeedBus: "sata"},
			"old":   {VCPUs: 512, MemoryMiB: 16 << 20, DiskGiB: 65536, DomainType: "qemu", CPUMode: "maximum", Machine: "pc-i440fx-7.2", SeedBus: "ide"},
		},
		AddressSources: []string{"lease", "agent", "arp"}, AddressFamily: "ipv4", InstallGuestAgent: true,
		Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want\n%+v", c, want)
	}
}

func TestConfigurationDefaults(t *testing.T) {
	c, err := parse(t, "hosts: [{name: a}]\n"+
		"images: {i: {url: 'http://h/x', sha256: "+strings.ToUpper(sha)+"}}\n"+
		"machineTypes: {m: {vcpus: 1, memoryMiB: 64, diskGiB: 1}, q: {vcpus: 1, memoryMiB: 64, diskGiB: 1, domainType: qemu}}")
	if err != nil {
		t.Fatal(err)
	}
	want := kvm.Config{
		Hosts:  []kvm.HostConfig{{Name: "a", Socket: "/var/run/libvirt/libvirt-sock", Pool: "default", Network: "default"}},
		Images: map[string]kvm.Image{"i": {URL: "http://h/x", SHA256: sha, Format: "qcow2"}},
		MachineTypes: map[string]kvm.MachineType{
			"m": {VCPUs: 1, MemoryMiB: 64, DiskGiB: 1, DomainType: "kvm", CPUMode: "host-passthrough", Machine: "q35", SeedBus: "virtio"},
			"q": {VCPUs: 1, MemoryMiB: 64, DiskGiB: 1, DomainType: "qemu", Machine: "q35", SeedBus: "virtio"},
		},
		AddressSources: []string{"lease", "agent"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want\n%+v", c, want)
	}
}

// many returns n entries of a list or map.
func many(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

// overSSH is a host that is reached over SSH, with other values for some of its keys.
func overSSH(more string) string {
	all := map[string]string{"name": "a", "address": "h", "user": "u", "keyFile": "/k", "knownHostsFile": "/h"}
	var order []string
	for _, kv := range strings.Split(more, ", ") {
		k, v, _ := strings.Cut(kv, ": ")
		all[k] = v
	}
	for _, k := range []string{"name", "address", "user", "keyFile", "knownHostsFile"} {
		if all[k] != "-" {
			order = append(order, k+": "+all[k])
		}
	}
	return "hosts:\n- {" + strings.Join(order, ", ") + "}"
}

// Errors name the entry, the key, the line and the value.
func TestConfigurationsThatAreRefused(t *testing.T) {
	host := func(more string) string { return "hosts:\n- {name: a, " + more + "}" }
	img := func(more string) string { return "images:\n  i: {" + more + "}" }
	url := func(u string) string { return img("url: " + u + ", sha256: " + sha) }
	machine := func(more string) string {
		all := "vcpus: 1, memoryMiB: 64, diskGiB: 1"
		for _, part := range strings.Split(all, ", ") {
			if k, _, _ := strings.Cut(part, ":"); strings.Contains(more, k+":") {
				all = strings.TrimPrefix(strings.Replace(", "+all, ", "+part, "", 1), ", ")
			}
		}
		return "machineTypes:\n  m: {" + all + ", " + more + "}"
	}
	const two = 2
	for _, tc := range []struct {
		text, key string
		line      int
		says      string
	}{
		{"hosts: []", "hosts", 1, "0 of them"},
		{"hosts: [" + many(257, "{name: h%d}") + "]", "hosts", 1, "257"},
		{"host: []", "host", 1, "unknown key"},
		{host("adr: x"), "hosts[0].adr", two, "unknown key"},
		{img("sum: x"), "images.i.sum", two, "unknown key"},
		{machine("cpus: 1"), "machineTypes.m.cpus", two, "unknown key"},
		{"hosts:\n- {}", "hosts[0].name", two, `""`},
		{"hosts:\n- {name: HV}", "hosts[0].name", two, "HV"},
		{"hosts:\n- {name: a/b}", "hosts[0].name", two, "a/b"},
		{"hosts:\n- {name: -a}", "hosts[0].name", two, "-a"},
		{"hosts:\n- {name: a.}", "hosts[0].name", two, "a."},
		{"hosts:\n- {name: " + strings.Repeat("a", 64) + "}", "hosts[0].name", two, "aaa"},
		{"hosts:\n- {name: a}\n- {name: b, socket: /b}\n- {name: a}", "hosts[2].name", 4, `"a": there is another`},
		{host("region: 'a b'"), "hosts[0].region", two, "a b"},
		{host("region: " + strings.Repeat("a", 64)), "hosts[0].region", two, "aaa"},
		{host("socket: libvirt-sock"), "hosts[0].socket", two, "libvirt-sock"},
		{host("socket: /" + strings.Repeat("a", 107)), "hosts[0].socket", two, "107"},
		{host("pool: ../etc"), "hosts[0].pool", two, "../etc"},
		{host("pool: " + strings.Repeat("a", 129)), "hosts[0].pool", two, "aaa"},
		{host("network: 'a b'"), "hosts[0].network", two, "a b"},
		{host("bridge: br0, network: default"), "hosts[0].bridge", two, "br0"},
		{host("bridge: 'br 0'"), "hosts[0].bridge", two, "br 0"},
		{host("bridge: abcdefghijklmnop"), "hosts[0].bridge", two, "abcdefghijklmnop"},
		{host("hostUUID: 4c4c"), "hosts[0].hostUUID", two, "4c4c"},
		{"hosts:\n- {name: a}\n- {name: b}", "hosts[1].address", 3, "host a is reached there, too"},
		{"hosts:\n- {name: a, socket: /a, hostUUID: 4c4c4544-0042-4810-8054-b7c04f4a3232}\n- {name: b, hostUUID: 4C4C4544-0042-4810-8054-B7C04F4A3232}", "hosts[1].hostUUID", 3, "host a has it, too"},
		{host("user: u, keyFile: /k, knownHostsFile: /h"), "hosts[0].user", two, "no address"},
		{host("keyFile: /k, knownHostsFile: /h"), "hosts[0].keyFile", two, "no address"},
		{host("knownHostsFile: /h"), "hosts[0].knownHostsFile", two, "no address"},
		{overSSH("user: -"), "hosts[0].user", two, `""`},
		{overSSH("user: -oProxyCommand=x"), "hosts[0].user", two, "-oProxyCommand=x"},
		{overSSH("user: a b"), "hosts[0].user", two, "a b"},
		{overSSH("keyFile: -"), "hosts[0].keyFile", two, `""`},
		{overSSH("keyFile: ~/.ssh/id"), "hosts[0].keyFile", two, "~/.ssh/id"},
		{overSSH("knownHostsFile: -"), "hosts[0].knownHostsFile", two, "pose"},
		{overSSH("knownHostsFile: known_hosts"), "hosts[0].knownHostsFile", two, "known_hosts"},
		{"images: {" + many(257, "i%d: {url: 'http://h/', sha256: "+sha+"}") + "}", "images", 1, "257"},
		{"images: {'a b': {url: 'http://h/', sha256: " + sha + "}}", "images", 1, "a b"},
		{url("''"), "images.i.url", two, "http"},
		{url("ftp://h/"), "images.i.url", two, "http"},
		{url("/images/x"), "images.i.url", two, "http"},
		{url("'http:///x'"), "images.i.url", two, "http"},
		{url("'http://:80/x'"), "images.i.url", two, "http"},
		{url("'http://user:hunter2@h:x/'"), "images.i.url", two, "http"},
		{url("'ftp://user:hunter2@h/'"), "images.i.url", two, "http"},
		{url("'http://h/" + strings.Repeat("a", 2048) + "'"), "images.i.url", two, "2048"},
		{img("url: 'http://user:hunter2@h/'"), "images.i.sha256", two, `""`},
		{img("url: 'http://user:hunter2@h/', sha256: abc"), "images.i.sha256", two, "abc"},
		{img("url: 'http://user:hunter2@h/', sha256: g" + sha[1:]), "images.i.sha256", two, "g123"},
		{img("url: 'http://user:hunter2@h/', sha256: " + sha + ", format: vmdk"), "images.i.format", two, "vmdk"},
		{"machineTypes: {" + many(257, "m%d: {vcpus: 1, memoryMiB: 64, diskGiB: 1}") + "}", "machineTypes", 1, "257"},
		{"machineTypes: {-m: {vcpus: 1, memoryMiB: 64, diskGiB: 1}}", "machineTypes", 1, "-m"},
		{machine("vcpus: 0"), "machineTypes.m.vcpus", two, "0: want"},
		{machine("vcpus: 513"), "machineTypes.m.vcpus", two, "513"},
		{machine("vcpus: 1.5"), "machineTypes.m.vcpus", two, "whole"},
		{machine("memoryMiB: 63"), "machineTypes.m.memoryMiB", two, "63"},
		{machine("memoryMiB: 16777217"), "machineTypes.m.memoryMiB", two, "16777217"},
		{machine("diskGiB: 0"), "machineTypes.m.diskGiB", two, "0: want"},
		{machine("diskGiB: 65537"), "machineTypes.m.diskGiB", two, "65537"},
		{machine("domainType: xen"), "machineTypes.m.domainType", two, "xen"},
		{machine("cpuMode: custom"), "machineTypes.m.cpuMode", two, "custom"},
		{machine("domainType: qemu, cpuMode: host-passthrough"), "machineTypes.m.cpuMode", two, "domainType kvm"},
		{machine("machine: 'q 35'"), "machineTypes.m.machine", two, "q 35"},
		{machine("seedBus: usb"), "machineTypes.m.seedBus", two, "usb"},
		{machine("seedBus: ide"), "machineTypes.m.seedBus", two, `"ide"`},
		{machine("machine: pc-q35-7.2, seedBus: ide"), "machineTypes.m.seedBus", two, "pc-q35-7.2"},
		{machine("machine: pc, seedBus: sata"), "machineTypes.m.seedBus", two, "q35 has"},
		{machine("machine: pc-i440fx-9.0, seedBus: sata"), "machineTypes.m.seedBus", two, "q35 has"},
		{"addressSources: [dhcp]", "addressSources[0]", 1, "dhcp"},
		{"addressSources: [agent, arp, agent]", "addressSources[2]", 1, "agent"},
		{"addressFamily: both", "addressFamily", 1, "both"},
		{"addressSources: [lease]\nhosts: [{name: a}, {name: b, socket: /b, bridge: br0}]", "addressSources", 1, "host b"},
		{"installGuestAgent: 'yes'", "installGuestAgent", 1, "true or false"},
		{"clients: [0.0.0.0/0]", "clients[0]", 1, "everybody"},
		{"clients: ['2001:db8::/32', '::/0']", "clients[1]", 1, "everybody"},
		{"clients: ['']", "clients[0]", 1, "empty"},
		{"clients: [0.0.0.0/1, 128.0.0.0/1]", "clients[0]", 1, "everybody"},
		{"clients: ['2000::/3']", "clients[0]", 1, "everybody"},
		{"clients: ['::ffff:0.0.0.0/96']", "clients[0]", 1, "IPv4 network as such"},
		{"clients: [192.0.2.1/24]", "clients[0]", 1, "want 192.0.2.0/24"},
		// What looks like a password or a key that was put in the wrong place is not shown.
		{host(`keyFile: "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2"`), "hosts[0].keyFile", two, ""},
		{host(`address: h, knownHostsFile: /h, user: u, keyFile: "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2"`), "hosts[0].keyFile", two, "not shown"},
		{host(`address: h, knownHostsFile: /h, user: "root:hunter2", keyFile: /k`), "hosts[0].user", two, "without a password"},
		{host("address: 'ssh://root:hunter2@h'"), "hosts[0].address", two, "not shown"},
		{host("address: 'root:hunter2@h'"), "hosts[0].address", two, "not shown"},
		{host("socket: 'qemu+ssh://root:hunter2@h/system'"), "hosts[0].socket", two, "not shown"},
		{img("url: 'http://h/x', sha256: 'https://u:hunter2@h/x'"), "images.i.sha256", two, "not shown"},
		{img("url: 'http://h/x', sha256: " + sha + ", format: 'https://u:hunter2@h/x'"), "images.i.format", two, "not shown"},
		{"clients: [192.0.2.1]", "clients[0]", 1, ""},
		{"clients: [" + many(1025, "10.0.%d.0/24") + "]", "clients", 1, ""},
		{"clients: [" + strings.TrimSuffix(strings.Repeat("10.0.0.0/24, ", 1025), ", ") + "]", "clients", 1, "1025"},
	} {
		text := tc.text
		if !strings.Contains(text, "hosts:") {
			text += "\nhosts: [{name: a}]"
		}
		_, err := parse(t, text)
		where := fmt.Sprintf("line %d", tc.line)
		if err == nil || !strings.Contains(err.Error(), kvm.Type+"."+tc.key) || !strings.Contains(err.Error(), tc.says) ||
			!strings.Contains(err.Error(), `provider "test"`) || !strings.Contains(err.Error(), where) {
			t.Errorf("%.70s: %v, want it to name %s and %s and to say %q", tc.text, err, where, tc.key, tc.says)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.70s: %v shows a password", tc.text, err)
		}
	}
}

func TestConfigurationsThatAreTaken(t *testing.T) {
	for _, text := range []string{
		"hosts: [{name: a, socket: /a}, {name: b-1.c, socket: /b}, {name: " + strings.Repeat("a", 63) + "}]",
		"hosts: [" + many(256, "{name: h%[1]d, socket: /h%[1]d}") + "]",
		"hosts: [{name: a, socket: /" + strings.Repeat("a", 106) + "}]",
		"hosts: [{name: a, bridge: abcdefghijklmno}]\naddressSources: [arp]",
		"hosts: [{name: a, bridge: br0}]", // the agent is asked, too
		"hosts: [{name: a}]\naddressSources: [lease]\naddressFamily: ipv6",
		"hosts: [{name: a}]\naddressSources: []",
		"hosts: [{name: a}]\nmachineTypes: {m: {vcpus: 1, memoryMiB: 64, diskGiB: 1, machine: pc, seedBus: ide}}",
		"hosts: [{name: a}]\nmachineTypes: {m: {vcpus: 1, memoryMiB: 64, diskGiB: 1, machine: virt, seedBus: scsi}}",
		"hosts: [{name: a}]\nmachineTypes: {m: {vcpus: 1, memoryMiB: 64, diskGiB: 1, domainType: qemu, cpuMode: host-model, seedBus: sata}}",
		"hosts: [{name: a}]\nclients: [10.0.0.0/8, 192.0.2.7/32]",
		overSSH("user: svc_egress@corp.example"),
	} {
		if _, err := parse(t, text); err != nil {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// Addresses are names and addresses of either family, with a port or without.
func TestAddressesOfHosts(t *testing.T) {
	for address, good := range map[string]bool{
		"hv1": true, "hv1.example.com": true, "hv1.example.com.": true, "hv1:22": true, "hv1.example.com:65535": true,
		"192.0.2.1": true, "192.0.2.1:2222": true, "2001:db8::1": true, "[2001:db8::1]:22": true, "::1": true, "fe80::1%eth0": true,
		"hv1:0": false, "hv1:65536": false, "hv1:ssh": false, "hv1:": false, "hv1:22:22": false, ":22": false,
		"[2001:db8::1]": true, "[fe80::1%eth0]:22": true, "[192.0.2.1]": false, "[hv1]": false, "2001:db8::1:zz": false, "[hv1": false, "[]": false,
		"fe80::1%a b": false, "[fe80::1%a b]": false, "[fe80::1%a b]:22": false,
		"root@hv1": false, "ssh://hv1": false, "hv 1": false, "hv1/x": false, "-hv1": false, "hv1-": false, "hv_1": false, "a..b": false,
		strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "a": false, strings.Repeat("a.", 126) + "a": true,
	} {
		_, err := parse(t, overSSH(fmt.Sprintf("address: %q", address)))
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "hosts[0].address") {
			t.Errorf("%q: %v, want it taken: %t", address, err, good)
		}
	}
}
