package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// firstPort is above those that only root may have, so that nobody takes it for a machine's own sshd.
const firstPort = 2201

func (h host) port() int { return firstPort + h.number - 1 }

// Address of the sshd.
func (h host) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(h.port())) }

// sshd takes one key for root and forwards to libvirtd's socket.
func (h host) sshd() *components.Process {
	p := h.component(lookPath("sshd"), "-D", "-e", "-f", h.own("sshd_config"))
	p.Name = "sshd" + h.suffix
	p.KillsDescendants = true // the connections, as when a host crashes
	p.Ready = func(ctx context.Context) error { return answersSSH(ctx, h.address()) }
	return p
}

func answersSSH(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is written
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	greeting := make([]byte, 4)
	if _, err := conn.Read(greeting); err != nil {
		return err
	}
	if string(greeting) != "SSH-" {
		return fmt.Errorf("%s answers %q", address, greeting)
	}
	return nil
}

// sshdConfig names every file; nothing of the machine's own configuration is read.
func (h host) sshdConfig() string {
	return fmt.Sprintf(`ListenAddress %s
HostKey %s
AuthorizedKeysFile %s
PidFile %s
PermitRootLogin prohibit-password
AuthenticationMethods publickey
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 100
LogLevel VERBOSE
`, h.address(), h.own("host_key"), h.own("authorized_keys"), h.pidFile("sshd"))
}

// unlockRoot lets root log in with a key where the account is locked, as some systems have it: sshd then refuses, whatever
// the key. It returns what /etc/shadow should be, "" when it may stay.
func unlockRoot(shadow string) string {
	before, rest, found := strings.Cut("\n"+shadow, "\nroot:!")
	if !found {
		return ""
	}
	_, after, _ := strings.Cut(rest, ":")
	return strings.TrimPrefix(before+"\nroot:*:"+after, "\n")
}

// privilegeSeparation is a folder that sshd takes.
const privilegeSeparation = "/run/sshd"

// writeSSHD makes keys and configuration.
func (h host) writeSSHD() error {
	if err := os.MkdirAll(h.own(""), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(privilegeSeparation, 0o755); err != nil {
		return err
	}
	if err := h.writeKeys(); err != nil {
		return err
	}
	return os.WriteFile(h.own("sshd_config"), []byte(h.sshdConfig()), 0o600)
}
