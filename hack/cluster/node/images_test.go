package node

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestImageName(t *testing.T) {
	file := archive(t, map[string]string{"layer.tar": "…", "manifest.json": `[{"Config":"c","RepoTags":["pause:1","pause:2"],"Layers":[]}]`})
	if got, err := imageName(file); err != nil || got != "pause:1" {
		t.Errorf("got %q, %v, want pause:1", got, err)
	}
}

func TestImageNameRefuses(t *testing.T) {
	noArchive := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(noArchive, []byte(strings.Repeat("text ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, file := range map[string]string{
		"not an archive": noArchive,
		"no manifest":    archive(t, map[string]string{"index.json": "{}"}),
		"not JSON":       archive(t, map[string]string{"manifest.json": "["}),
		"no image":       archive(t, map[string]string{"manifest.json": "[]"}),
		"no name":        archive(t, map[string]string{"manifest.json": `[{"RepoTags":null}]`}),
		"too long":       archive(t, map[string]string{"manifest.json": `[{"RepoTags":["` + strings.Repeat("a", maxManifest) + `"]}]`}),
		"not there":      filepath.Join(t.TempDir(), "none"),
	} {
		if got, err := imageName(file); err == nil {
			t.Errorf("%s: got %q", reason, got)
		} else if !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %q does not name the file", reason, err)
		}
	}
}
