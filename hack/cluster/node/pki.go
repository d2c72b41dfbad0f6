package node

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs every certificate of the cluster, for servers and clients alike.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes the folder with ca.crt and ca.key.
func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "test cluster"}, key)
	if err != nil {
		return nil, err
	}
	a := &authority{dir, ca, key}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(os.WriteFile(a.file("ca.crt"), a.pem(), 0o600), os.WriteFile(a.file("ca.key"), keyPEM, 0o600))
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) pem() []byte { return pemOf(a.cert.Raw) }

// client returns certificate and key of a client whose name and groups an API server reads from it.
func (a *authority) client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// writeServer writes NAME.crt and NAME.key of a server with these names and addresses.
func (a *authority) writeServer(name string, dns []string, addresses ...string) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    dns,
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	return a.write(name)(a.sign(template))
}

// writeClient writes NAME.crt and NAME.key of a client.
func (a *authority) writeClient(name, user string, groups ...string) error {
	return a.write(name)(a.client(user, groups...))
}

func (a *authority) write(name string) func(certPEM, keyPEM []byte, err error) error {
	return func(certPEM, keyPEM []byte, err error) error {
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(a.file(name+".crt"), certPEM, 0o600), os.WriteFile(a.file(name+".key"), keyPEM, 0o600))
	}
}

func (a *authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = a.cert.NotBefore, time.Now().AddDate(0, 0, 7)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return pemOf(der), keyPEM, err
}
