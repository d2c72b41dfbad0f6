package manifests

import (
	"archive/tar"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/images"
)

// operatorImage is what `make image` makes, built once for all tests of the package.
var operatorImage = sync.OnceValues(func() (v1.Image, error) {
	dir, err := os.MkdirTemp("", "roots-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bundle := filepath.Join(dir, "roots.pem")
	if err := writeRoots(bundle); err != nil {
		return nil, err
	}
	return images.Operator(context.Background(), images.OperatorOptions{Arch: runtime.GOARCH, Stamp: images.Stamp{Version: "under-test"}, Roots: bundle})
})

// writeRoots writes a bundle with one certificate: hosts that test need not have any.
func writeRoots(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// pair is a certificate with its key, as files have them.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

func TestTheImageFitsTheManifest(t *testing.T) {
	img, err := operatorImage()
	must(t, err)
	f, err := img.ConfigFile()
	must(t, err)
	o := kustomize(t, "default")
	spec, c := o.deployment(t).Spec.Template.Spec, o.container(t)
	if user := fmt.Sprintf("%d:%d", *spec.SecurityContext.RunAsUser, *spec.SecurityContext.RunAsGroup); user != f.Config.User {
		t.Errorf("the manifest runs it as %s, the image says %s", user, f.Config.User)
	}
	// With a command of its own the manifest would not need the entry point.
	if c.Image != images.OperatorName || len(c.Command) > 0 || len(f.Config.Entrypoint) != 1 || filepath.Base(f.Config.Entrypoint[0]) != "operator" {
		t.Errorf("container %s runs %q; the image runs %q", c.Image, c.Command, f.Config.Entrypoint)
	}
}

// program unpacks the programs of the operator's image and returns the path of the one that it starts.
func program(t *testing.T) string {
	t.Helper()
	img, err := operatorImage()
	must(t, err)
	f, err := img.ConfigFile()
	must(t, err)
	dir := t.TempDir()
	r := mutate.Extract(img)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, f.Config.Entrypoint[0])
		}
		must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		at := filepath.Join(dir, h.Name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		data, err := io.ReadAll(in)
		must(t, err)
		must(t, os.WriteFile(at, data, h.FileInfo().Mode().Perm()))
	}
}
