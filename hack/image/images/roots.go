package images

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// onlyCertificates returns the certificates of a PEM bundle, each checked, and nothing else that stands in the file: the
// same certificates give the same bytes whatever a distribution writes around them, and a key never gets into an image.
func onlyCertificates(bundle []byte) ([]byte, error) {
	var out bytes.Buffer
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s among the certificates", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, err
		}
		if err := pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return nil, err
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("no certificate in it")
	}
	return out.Bytes(), nil
}
