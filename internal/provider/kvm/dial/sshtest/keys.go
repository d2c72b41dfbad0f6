package sshtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Kind is a kind of key.
type Kind string

// The kinds.
const (
	Ed25519 Kind = "ed25519"
	ECDSA   Kind = "ecdsa"
	RSA     Kind = "rsa"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Ed25519, ECDSA, RSA} }

// NewKey makes a key.
func NewKey(t testing.TB, kind Kind) ssh.Signer {
	t.Helper()
	_, signer := NewKeyFile(t, kind, "")
	return signer
}

// NewKeyFile makes a key, and returns what a file of it holds in OpenSSH's form, too. An empty passphrase is none.
func NewKeyFile(t testing.TB, kind Kind, passphrase string) ([]byte, ssh.Signer) {
	t.Helper()
	key, err := generate(kind)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

func generate(kind Kind) (crypto.Signer, error) {
	switch kind {
	case ECDSA:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RSA:
		return rsa.GenerateKey(rand.Reader, 2048)
	default:
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// Certify returns the certificate of key for the principals, signed by ca. change, where not nil, changes it before it is
// signed.
func Certify(t testing.TB, ca ssh.Signer, key ssh.PublicKey, kind uint32, change func(*ssh.Certificate), principals ...string) *ssh.Certificate {
	t.Helper()
	cert := &ssh.Certificate{Key: key, CertType: kind, ValidPrincipals: principals, ValidBefore: ssh.CertTimeInfinity}
	if change != nil {
		change(cert)
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return cert
}

// NewCertSigner returns a signer that shows cert, which is of key.
func NewCertSigner(t testing.TB, cert *ssh.Certificate, key ssh.Signer) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}
