package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvControl names the variable in which the command finds the socket of hack/cluster/control.
const EnvControl = "E2E_KVM_CONTROL"

// ControlProgram is what a shell calls this program by to ask that socket.
const ControlProgram = "kvm-control"

// Env is what the command finds in its environment.
func (c Config) Env() []string {
	env := []string{
		"PATH=" + programs + string(filepath.ListSeparator) + os.Getenv("PATH"),
		EnvControl + "=" + controlSocket,
		"E2E_KVM_NAMESERVER=" + Nameserver,
		"E2E_LOGS=" + c.Logs,
	}
	if c.Image != "" {
		env = append(env, "E2E_KVM_IMAGE="+c.Image, "E2E_KVM_IMAGE_SHA256="+c.ImageSHA256)
	}
	for _, h := range c.hosts() {
		env = append(env, h.env()...)
	}
	return env
}

// env is one host's part; the names of all but the first end with the host's number.
func (h host) env() []string {
	var env []string
	for _, v := range [][2]string{
		{"ADDRESS", h.address()},
		{"USER", "root"},
		{"KEY_FILE", h.own("user_key")},
		{"KNOWN_HOSTS_FILE", h.own("known_hosts")},
		{"SOCKET", filepath.Join(runLibvirt, socketName)},
		{"URI", h.uri()},
		{"POOL", pool},
		{"NETWORK", network},
		{"GATEWAY", h.gateway()},
	} {
		env = append(env, fmt.Sprintf("E2E_KVM_%s%s=%s", v[0], strings.ReplaceAll(h.suffix, "-", "_"), v[1]))
	}
	return env
}
