package images

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// readRoots returns the certificates of the bundle, in PEM. Without one they are Mozilla's, from the Go module that go.mod
// pins: the image does not depend on which host it is made on, and a change of whom it trusts is a commit.
func readRoots(file string) ([]byte, error) {
	if file == "" {
		return mozillas()
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	kept, err := onlyCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return kept, nil
}

// mozillas leaves out the authorities that are trusted with a constraint alone, which PEM cannot express.
func mozillas() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return onlyCertificates(out.Bytes())
}

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
