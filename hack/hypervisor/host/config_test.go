package host

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
)

var two = Config{Dir: "/tmp/epx-hypervisor-1", Logs: "/logs", Hosts: 2, Command: []string{"true"}}

// TestHostsShareNothing compares whatever one host has for itself with that of another.
func TestHostsShareNothing(t *testing.T) {
	a, b := two.host(1), two.host(2)
	for what, pair := range map[string][2]string{
		"name": {a.name(), b.name()}, "address": {a.address(), b.address()}, "gateway": {a.gateway(), b.gateway()},
		"socket": {a.socket(), b.socket()}, "network": {a.networkXML(), b.networkXML()}, "libvirtd.conf": {a.libvirtdConfig(), b.libvirtdConfig()},
		"pid file": {a.pidFile("libvirtd"), b.pidFile("libvirtd")}, "sshd_config": {a.sshdConfig(), b.sshdConfig()},
		"component": {a.libvirtd().Name, b.libvirtd().Name},
	} {
		if pair[0] == pair[1] {
			t.Errorf("%s of both is %q", what, pair[0])
		}
	}
	for folder, ours := range a.folders() {
		if theirs := b.folders()[folder]; ours == theirs || theirs == "" {
			t.Errorf("%s is %q and %q", folder, ours, theirs)
		}
	}
}

func TestReplacedFoldersAreOurs(t *testing.T) {
	folders := two.ReplacedFolders()
	for _, folder := range []string{"/etc/libvirt", "/var/lib/libvirt", "/var/lib/libvirt/images", "/var/cache/libvirt", "/var/log/libvirt"} {
		if folders[folder] == "" {
			t.Errorf("%s would be the machine's", folder)
		}
	}
	for folder, ours := range folders {
		if !strings.HasPrefix(ours, two.Dir+"/") && !strings.HasPrefix(ours, two.Logs+"/") && !strings.HasPrefix(ours, private+"/") {
			t.Errorf("%s is replaced by %s, which is not ours", folder, ours)
		}
	}
	if _, there := folders[runLibvirt]; there {
		t.Errorf("%s is in a /run that is ours, yet replaced", runLibvirt)
	}
}

func TestDefinitionsAreXML(t *testing.T) {
	for what, text := range map[string]string{"network": two.host(1).networkXML(), "pool": poolXML()} {
		var v struct {
			Name string `xml:"name"`
		}
		if err := xml.Unmarshal([]byte(text), &v); err != nil || v.Name == "" {
			t.Errorf("%s: %v in\n%s", what, err, text)
		}
	}
}

func TestEnvTellsOfEveryHost(t *testing.T) {
	env := two.Env()
	for _, want := range []string{
		"E2E_KVM_ADDRESS=127.0.0.1:2201", "E2E_KVM_ADDRESS_2=127.0.0.1:2202", "E2E_KVM_SOCKET_2=/run/libvirt/libvirt-sock",
		"E2E_KVM_KEY_FILE=/run/hypervisor/host1/user_key", "E2E_KVM_GATEWAY_2=10.77.2.1", "E2E_LOGS=/logs",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in\n%s", want, strings.Join(env, "\n"))
		}
	}
	for _, e := range env {
		if strings.HasPrefix(e, "E2E_KVM_IMAGE") {
			t.Errorf("%s although there is no image", e)
		}
	}
	with := two
	with.Image, with.ImageSHA256 = "/guest.qcow2", "abc"
	if env := with.Env(); !slices.Contains(env, "E2E_KVM_IMAGE=/guest.qcow2") || !slices.Contains(env, "E2E_KVM_IMAGE_SHA256=abc") {
		t.Errorf("no image in\n%s", strings.Join(env, "\n"))
	}
}
