package dial_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// openssh starts OpenSSH's server with a line of configuration, and returns where it listens.
func openssh(t *testing.T, hostKey []byte, authorized ssh.PublicKey, extra string) string {
	t.Helper()
	path := "/usr/sbin/sshd"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no sshd")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "host"), hostKey)
	write(t, filepath.Join(dir, "authorized"), append([]byte("restrict,port-forwarding "), ssh.MarshalAuthorizedKey(authorized)...))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	write(t, filepath.Join(dir, "config"), fmt.Appendf(nil,
		"ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n%s\n",
		address, filepath.Join(dir, "host"), filepath.Join(dir, "authorized"), extra))
	cmd := exec.Command(path, "-D", "-e", "-f", filepath.Join(dir, "config"))
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp", address.String()); err == nil {
			_ = c.Close()
			return address.String()
		}
		select {
		case <-ended:
			t.Skip("sshd does not run here")
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Skip("sshd does not listen")
	return ""
}

func TestOpenSSH(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for _, kind := range sshtest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			data, host := sshtest.NewKeyFile(t, kind, "")
			r := newRig(t, sshtest.Options{})
			keyData, key := sshtest.NewKeyFile(t, kind, "")
			write(t, r.target.KeyFile, keyData)
			r.target.User, r.target.Socket = me.Username, echo(t)
			r.target.Address = openssh(t, data, key.PublicKey(), "")
			r.know(line(r.target.Address, host.PublicKey()))
			r.works()
			r.target.Socket = filepath.Join(t.TempDir(), "gone")
			r.fails(dial.LibvirtUnreachable, r.target.Socket)
			write(t, r.target.KeyFile, data)
			r.fails(dial.SSHAuthFailed, ssh.FingerprintSHA256(host.PublicKey()))
			r.know(line(r.target.Address, r.HostKey()))
			r.fails(dial.HostKeyMismatch)
		})
	}
	t.Run("no forwarding", func(t *testing.T) {
		data, host := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
		r := newRig(t, sshtest.Options{})
		r.target.User, r.target.Socket = me.Username, echo(t)
		r.target.Address = openssh(t, data, r.key.PublicKey(), "AllowStreamLocalForwarding no")
		r.know(line(r.target.Address, host.PublicKey()))
		r.fails(dial.LibvirtUnreachable, "AllowStreamLocalForwarding")
	})
	t.Run("no keys taken", func(t *testing.T) {
		data, host := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
		r := newRig(t, sshtest.Options{})
		r.target.User = me.Username
		r.target.Address = openssh(t, data, r.key.PublicKey(), "PubkeyAuthentication no\nPasswordAuthentication yes")
		r.know(line(r.target.Address, host.PublicKey()))
		r.fails(dial.SSHAuthFailed)
	})
}
