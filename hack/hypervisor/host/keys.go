package host

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// writeKeys makes the host's key and that of its user, and tells each side of the other's.
func (h host) writeKeys() error {
	hostKey, err := writeKey(h.own("host_key"))
	if err != nil {
		return err
	}
	userKey, err := writeKey(h.own("user_key"))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(h.own("known_hosts"), []byte(knownHost(h.address(), hostKey)), 0o600),
		os.WriteFile(h.own("authorized_keys"), ssh.MarshalAuthorizedKey(userKey), 0o600),
	)
}

// knownHost is the line of a known_hosts file.
func knownHost(address string, key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
}

// writeKey makes a private key and returns the public one.
func writeKey(file string) (ssh.PublicKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(public)
}
