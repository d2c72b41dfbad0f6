package host

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestAKeyIsWrittenAndRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	public, err := writeKey(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if string(signer.PublicKey().Marshal()) != string(public.Marshal()) {
		t.Error("the private key is not that of the public one")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: sshd refuses what others can read", info.Mode(), err)
	}
}

func TestKnownHostsTellHostsApart(t *testing.T) {
	dir := t.TempDir()
	key, err := writeKey(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(file, []byte(knownHost(two.host(1).address(), key)), 0o600); err != nil {
		t.Fatal(err)
	}
	check, err := knownhosts.New(file)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{1: true, 2: false} {
		address := two.host(n).address()
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(address, tcp, key); (err == nil) != want {
			t.Errorf("%s: got %v, want it known: %t", address, err, want)
		}
	}
}
