package images

import (
	"archive/tar"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	fallback "golang.org/x/crypto/x509roots/fallback/bundle"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	must(t, err)
	return h.String()
}

func config(t *testing.T, img v1.Image) v1.Config {
	t.Helper()
	f, err := img.ConfigFile()
	must(t, err)
	return f.Config
}

// unpack writes what is in the image below a new folder and returns it. Owners are the test's.
func unpack(t *testing.T, img v1.Image) string {
	t.Helper()
	root := t.TempDir()
	r := mutate.Extract(img)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		must(t, err)
		at := filepath.Join(root, h.Name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, os.MkdirAll(at, 0o755))
		case tar.TypeSymlink:
			must(t, os.Symlink(h.Linkname, at))
		default:
			data, err := io.ReadAll(in)
			must(t, err)
			must(t, os.WriteFile(at, data, h.FileInfo().Mode()))
		}
	}
}

func TestPauseIsStaticAndTheSameEachTime(t *testing.T) {
	first, err := Pause(t.Context(), "amd64")
	must(t, err)
	second, err := Pause(t.Context(), "amd64")
	must(t, err)
	if digest(t, first) != digest(t, second) {
		t.Error("two builds differ")
	}
	c := config(t, first)
	program := filepath.Join(unpack(t, first), c.Entrypoint[0])
	f, err := elf.Open(program)
	must(t, err)
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 || f.Section(".interp") != nil {
		t.Errorf("not static: %v, %v", libraries, err)
	}
	if c.User != "65535:65535" {
		t.Errorf("runs as %q", c.User)
	}
}

func TestPauseEndsWhenItIsTold(t *testing.T) {
	dir := t.TempDir()
	must(t, build(t.Context(), dir, "", Stamp{}, "hack/image/pause"))
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		// It cannot say when it listens, and a signal before that kills it: so it gets longer from one try to the next.
		var err error
		for patience := 10 * time.Millisecond; patience < 10*time.Second; patience *= 2 {
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "pause"))
			must(t, cmd.Start())
			<-time.After(patience)
			must(t, cmd.Process.Signal(s))
			if err = cmd.Wait(); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// operatorOf makes an operator's image around programs that are not compiled for it.
func operatorOf(t *testing.T, o OperatorOptions, program string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	for _, p := range []string{"operator", "egress-proxy"} {
		must(t, os.WriteFile(filepath.Join(dir, p), []byte(program+p), 0o700))
	}
	for _, p := range Papers() {
		must(t, os.WriteFile(filepath.Join(dir, p), []byte("paper "+p), 0o600))
	}
	img, err := operatorImage(o, dir)
	must(t, err)
	return img
}

func TestTheOperatorsImage(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(bundle, append([]byte("# a comment\n"), certificate(t)...), 0o600))
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := OperatorOptions{Arch: "amd64", Stamp: Stamp{Version: "v1.2.3", Revision: "abc", Date: date.Format(time.RFC3339)}, Roots: bundle}
	img := operatorOf(t, o, "it: ")
	if digest(t, img) != digest(t, operatorOf(t, o, "it: ")) {
		t.Error("two builds of the same programs differ")
	}
	arm := o
	arm.Arch = "arm64"
	if digest(t, img) == digest(t, operatorOf(t, arm, "it: ")) || digest(t, img) == digest(t, operatorOf(t, o, "other: ")) {
		t.Error("another architecture or program is not another image")
	}
	c := config(t, img)
	if c.User != OperatorUser || len(c.Entrypoint) != 1 {
		t.Errorf("config: %+v", c)
	}
	m, err := img.Manifest()
	must(t, err)
	for key, want := range map[string]string{"version": "v1.2.3", "revision": "abc", "created": "2026-01-02T03:04:05Z", "licenses": "Apache-2.0"} {
		if key = "org.opencontainers.image." + key; c.Labels[key] != want || m.Annotations[key] != want {
			t.Errorf("%s: label %q, annotation %q, want %q", key, c.Labels[key], m.Annotations[key], want)
		}
	}
	f, err := img.ConfigFile()
	must(t, err)
	if !f.Created.Equal(date) {
		t.Errorf("created %v, want the commit's date %v", f.Created, date)
	}
	root := unpack(t, img)
	for at, want := range map[string]string{
		c.Entrypoint[0]:               "it: operator",
		"/usr/local/bin/egress-proxy": "it: egress-proxy",
		"/etc/passwd":                 "operator:x:65532:65532:",
		"/etc/group":                  "operator:x:65532:",
		"/etc/nsswitch.conf":          "hosts: files dns",
		roots:                         "BEGIN CERTIFICATE",
		"/tmp/.":                      "",
		"/usr/share/doc/egress-proxies-operator/LICENSE":             "paper LICENSE",
		"/usr/share/doc/egress-proxies-operator/THIRD-PARTY-NOTICES": "paper THIRD-PARTY-NOTICES",
		"/usr/share/doc/egress-proxies-operator/sbom.cdx.json":       "paper sbom.cdx.json",
	} {
		if want == "" {
			if _, err := os.Stat(filepath.Join(root, at)); err != nil {
				t.Error(err)
			}
			continue
		}
		if data, err := os.ReadFile(filepath.Join(root, at)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %q, %v", at, data, err)
		}
	}
}

func TestOnlyCertificatesGetIntoTheImage(t *testing.T) {
	one := certificate(t)
	noisy := append(append([]byte("# Some authority\nsubject=x\n"), one...), "\ntrailing\n"...)
	if got, err := onlyCertificates(noisy); err != nil || string(got) != string(one) {
		t.Errorf("got %q, %v", got, err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	for name, bundle := range map[string][]byte{
		"empty": nil, "no PEM": []byte("hello"), "a key": append(append([]byte{}, one...), key...),
		"damaged": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no")}),
	} {
		if got, err := onlyCertificates(bundle); err == nil {
			t.Errorf("%s passes: %q", name, got)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readRoots(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a bundle that was named and is not there: %v", err)
	}
}

// TestWithoutABundleTheImageTrustsMozillas checks also that the image needs no certificates on the building host.
func TestWithoutABundleTheImageTrustsMozillas(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", filepath.Join(t.TempDir(), "absent"))
	data, err := readRoots("")
	must(t, err)
	pool := x509.NewCertPool()
	if n := strings.Count(string(data), "BEGIN CERTIFICATE"); n < 100 || !pool.AppendCertsFromPEM(data) {
		t.Errorf("%d certificates", n)
	}
	for root := range fallback.Roots() {
		block := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		if in := strings.Contains(string(data), block); in == (root.Constraint != nil) {
			t.Errorf("a certificate with constraint %v is in it: %v", root.Constraint != nil, in)
		}
	}
}

func TestAProgramSaysWhatItIsOf(t *testing.T) {
	dir := t.TempDir()
	s := Stamp{Version: "v1.2.3", Revision: "abc", Date: "2026-01-02T03:04:05Z"}
	must(t, build(t.Context(), dir, runtime.GOARCH, s, "cmd/egress-proxy"))
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "egress-proxy"), "--version").Output()
	must(t, err)
	if want := "egress-proxy v1.2.3, commit abc of 2026-01-02T03:04:05Z, go"; !strings.HasPrefix(string(out), want) {
		t.Errorf("%q, want %q…", out, want)
	}
}

func TestWhatIsNoStampIsRefused(t *testing.T) {
	for field, s := range map[string]Stamp{
		"version": {Version: "v1 -X main.x=y"}, "revision": {Revision: "a b"}, "date": {Date: "yesterday"},
	} {
		if err := Programs(t.Context(), t.TempDir(), OperatorOptions{Arch: "amd64", Stamp: s}); err == nil || !strings.HasPrefix(err.Error(), field+" \"") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
