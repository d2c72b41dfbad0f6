package layer_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

func imageFor(t *testing.T, arch string) v1.Image {
	t.Helper()
	l, err := layer.New(layer.File("/a", 0o755, []byte(arch)))
	must(t, err)
	img, err := layer.Image(layer.Spec{Arch: arch, Annotations: map[string]string{"of": arch}}, l)
	must(t, err)
	return img
}

// TestASavedIndexIsAnImageLayout reads it back with the library that tools for registries use.
func TestASavedIndexIsAnImageLayout(t *testing.T) {
	dir := t.TempDir()
	var files [2][]byte
	for i := range files {
		index, err := layer.Index(map[string]string{"x": "1"}, imageFor(t, "amd64"), imageFor(t, "arm64"))
		must(t, err)
		file := filepath.Join(dir, "index.tar")
		must(t, layer.SaveIndex(file, "something:v1", index))
		files[i], err = os.ReadFile(file)
		must(t, err)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two files of the same index differ")
	}
	index, err := layout.ImageIndexFromPath(untar(t, files[0]))
	must(t, err)
	top, err := index.IndexManifest()
	must(t, err)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" ||
		top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/something:v1" {
		t.Fatalf("top: %+v", top.Manifests)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	must(t, err)
	m, err := inner.IndexManifest()
	must(t, err)
	if m.Annotations["x"] != "1" || len(m.Manifests) != 2 {
		t.Fatalf("index: %+v", m)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		img, err := inner.Image(m.Manifests[i].Digest)
		must(t, err)
		c, err := img.ConfigFile()
		must(t, err)
		layers, err := img.Layers()
		must(t, err)
		if got := headers(t, layers[0]); len(layers) != 1 || len(got) != 1 || got[0].Name != "a" {
			t.Errorf("image %d holds %+v", i, got)
		}
		of, err := img.Manifest()
		must(t, err)
		if m.Manifests[i].ArtifactType != "" {
			t.Errorf("image %d is an artifact: %q", i, m.Manifests[i].ArtifactType)
		}
		if p := m.Manifests[i].Platform; p == nil || p.OS != "linux" || p.Architecture != arch || c.Architecture != arch || of.Annotations["of"] != arch {
			t.Errorf("image %d: platform %+v, for %s, %v", i, p, c.Architecture, of.Annotations)
		}
	}
}

func untar(t *testing.T, data []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		must(t, err)
		at := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		b, err := io.ReadAll(in)
		must(t, err)
		must(t, os.WriteFile(at, b, 0o600))
	}
}
