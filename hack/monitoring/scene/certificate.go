package scene

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	certutil "k8s.io/client-go/util/cert"
)

// certify makes the certificate of the API, and a client that trusts it.
func (s *Scene) certify() error {
	crt, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil, "")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(crt) {
		return errors.New("the certificate of the API has no PEM")
	}
	s.https = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	return errors.Join(s.write("tls.crt", string(crt)), s.write("tls.key", string(key)))
}
