package dial_test

import (
	"bytes"
	"encoding/pem"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// untouched checks that nobody was dialled.
func (r *rig) untouched() {
	r.t.Helper()
	if len(r.dialed) > 0 {
		r.t.Errorf("%d connections were made", len(r.dialed))
	}
}

func TestUnreadableKeys(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	locked, _ := sshtest.NewKeyFile(t, sshtest.Ed25519, "open sesame")
	whole, err := os.ReadFile(r.target.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte(nil), whole...)
	broken[len(broken)/2] ^= 1
	secret := string(whole[bytes.IndexByte(whole, '\n')+1:][:40])
	for _, data := range [][]byte{nil, []byte("\n"), []byte("nonsense"), whole[:len(whole)/2], broken, locked,
		ssh.MarshalAuthorizedKey(r.key.PublicKey()), make([]byte, 1<<20+1),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")})} {
		write(t, r.target.KeyFile, data)
		if e := r.fails(dial.KeyUnreadable, r.target.KeyFile); strings.Contains(e.Error(), secret) {
			t.Errorf("the message holds the key: %v", e)
		}
	}
	write(t, r.target.KeyFile, make([]byte, 1<<20+1))
	r.fails(dial.KeyUnreadable, "larger than")
	if err := os.Remove(r.target.KeyFile); err != nil {
		t.Fatal(err)
	}
	r.fails(dial.KeyUnreadable, r.target.KeyFile, "no such file")
	r.unreadable(&r.target.KeyFile, dial.KeyUnreadable)
	r.untouched()
}

func TestUnreadableKnownHosts(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for _, data := range []string{"", "\n", "# nobody\n\n", "nonsense\n", "host ssh-ed25519 AAAA\n", strings.Repeat("#\n", 2<<20) + "#",
		strings.Repeat("x", 1<<17)} {
		write(t, r.target.KnownHostsFile, []byte(data))
		r.fails(dial.KnownHostsUnreadable, r.target.KnownHostsFile)
	}
	write(t, r.target.KnownHostsFile, bytes.Repeat([]byte("\n"), 4<<20+1))
	r.fails(dial.KnownHostsUnreadable, "larger than")
	if err := os.Remove(r.target.KnownHostsFile); err != nil {
		t.Fatal(err)
	}
	r.fails(dial.KnownHostsUnreadable, r.target.KnownHostsFile, "no such file")
	r.unreadable(&r.target.KnownHostsFile, dial.KnownHostsUnreadable)
	r.untouched()
}

// unreadable tries what neither file may be.
func (r *rig) unreadable(file *string, reason string) {
	r.t.Helper()
	if err := syscall.Mkfifo(*file, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.fails(reason, *file, "not a regular file")
	*file = r.t.TempDir()
	r.fails(reason, *file, "not a regular file")
	for _, path := range []string{"relative", ""} {
		*file = path
		r.fails(reason, path, "not absolute")
	}
}

func TestSizesThatAreStillRead(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	pad := func(file string, size int) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, append(data, bytes.Repeat([]byte("\n"), size-len(data))...))
	}
	pad(r.target.KeyFile, 1<<20)
	pad(r.target.KnownHostsFile, 4<<20)
	r.works()
}

func TestRotation(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.works()
	// The user's key: the host takes the new one alone.
	data, next := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
	r.Change(func(o *sshtest.Options) { o.Authorized = []ssh.PublicKey{next.PublicKey()} })
	r.fails(dial.SSHAuthFailed)
	write(t, r.target.KeyFile, data)
	r.works()
	// The host's key.
	standing, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	host := sshtest.NewKey(t, sshtest.Ed25519)
	r.Change(func(o *sshtest.Options) { o.HostKeys = []ssh.Signer{host} })
	r.know(line(r.Address(), host.PublicKey()))
	roundTrip(t, standing, "still here")
	if err := standing.Close(); err != nil {
		t.Fatal(err)
	}
	r.works()
	r.know("@revoked "+line(r.Address(), host.PublicKey()), line(r.Address(), host.PublicKey()))
	r.fails(dial.HostKeyRevoked)
}
