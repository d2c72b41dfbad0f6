package layer_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func headers(t *testing.T, l v1.Layer) (out []tar.Header) {
	t.Helper()
	r, err := l.Uncompressed()
	must(t, err)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out = append(out, *h)
	}
}

func TestALayerHoldsWhatItsEntriesSay(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(source, []byte("program"), 0o600))
	owned := layer.Dir("/var/log/it", 0o750)
	owned.UID, owned.GID = 13, 14
	l, err := layer.New(
		layer.Dir("/tmp", fs.ModeSticky|0o777), layer.Copy("/usr/bin/program", 0o755, source), layer.Symlink("/bin", "usr/bin"),
		layer.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/:/bin/sh\n")), owned,
	)
	must(t, err)
	want := []tar.Header{
		{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin", Mode: 0o777},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644, Size: 26},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "usr/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "usr/bin/program", Typeflag: tar.TypeReg, Mode: 0o755, Size: 7},
		{Name: "var/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "var/log/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "var/log/it/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 13, Gid: 14},
	}
	got := headers(t, l)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.ModTime.Unix() != 0 {
			t.Errorf("%s has a time: %v", g.Name, g.ModTime)
		}
		if g.Name != w.Name || g.Typeflag != w.Typeflag || g.Mode != w.Mode || g.Size != w.Size || g.Linkname != w.Linkname || g.Uid != w.Uid || g.Gid != w.Gid {
			t.Errorf("entry %d\n got %+v\nwant %+v", i, g, w)
		}
	}
}

func TestWhatCannotBeALayerIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		entries    []layer.Entry
	}{
		{"relative", "clean absolute", []layer.Entry{layer.Dir("tmp", 0o755)}},
		{"dots", "clean absolute", []layer.Entry{layer.Dir("/a/../../b", 0o755)}},
		{"root", "clean absolute", []layer.Entry{layer.Dir("/", 0o755)}},
		{"twice", "differ", []layer.Entry{layer.Dir("/tmp", 0o755), layer.Dir("/tmp", 0o700)}},
		{"below a link", "no directory", []layer.Entry{layer.Symlink("/bin", "usr/bin"), layer.File("/bin/sh", 0o755, nil)}},
		{"no source", "no such file", []layer.Entry{layer.Copy("/x", 0o755, "/does/not/exist")}},
		{"device", "no file, directory or link", []layer.Entry{{Path: "/null", Mode: fs.ModeDevice}}},
	} {
		if _, err := layer.New(c.entries...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func image(t *testing.T, entries ...layer.Entry) v1.Image {
	t.Helper()
	l, err := layer.New(entries...)
	must(t, err)
	img, err := layer.Image(layer.Spec{Arch: "arm64", User: "1:2", Entrypoint: []string{"/a"}, Labels: map[string]string{"x": "1", "y": "2"}}, l)
	must(t, err)
	return img
}

func TestTheSameInputsGiveTheSameFile(t *testing.T) {
	a, b := layer.File("/a", 0o755, []byte("a")), layer.File("/b/b", 0o644, []byte("b"))
	dir := t.TempDir()
	var files [2]string
	for i, entries := range [][]layer.Entry{{a, b}, {b, a, b}} {
		file := filepath.Join(dir, "made", []string{"first", "second"}[i])
		must(t, layer.Save(file, "something:v1", image(t, entries...)))
		data, err := os.ReadFile(file)
		must(t, err)
		files[i] = string(data)
	}
	if files[0] != files[1] {
		t.Error("two files of the same image differ")
	}
	other, err := image(t, a).Digest()
	must(t, err)
	if same, err := image(t, a, b).Digest(); err != nil || same == other {
		t.Errorf("another image has the same digest: %v, %v", same, err)
	}
}

func TestASavedImageIsWhatDockerLoads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	must(t, layer.Save(file, "something:v1", image(t, layer.File("/a", 0o755, nil))))
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	must(t, err)
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 || manifest[0].RepoTags[0] != "something:v1" {
		t.Errorf("manifest: %+v", manifest)
	}
	tag, err := name.NewTag("docker.io/library/something:v1")
	must(t, err)
	img, err := tarball.ImageFromPath(file, &tag)
	must(t, err)
	c, err := img.ConfigFile()
	must(t, err)
	if c.OS != "linux" || c.Architecture != "arm64" || c.Config.User != "1:2" || c.Config.Entrypoint[0] != "/a" || c.Created.Unix() != 0 {
		t.Errorf("config: %+v", c)
	}
}

func TestAFailedSaveLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "image.tar")
	must(t, os.WriteFile(file, []byte("before"), 0o600))
	if err := layer.Save(file, "Not A Tag", image(t)); err == nil {
		t.Error("a bad tag passes")
	}
	if err := layer.Save(file, "something:v1", torn{image(t)}); err == nil {
		t.Error("a torn image passes")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "before" {
		t.Errorf("%q, %v", data, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// torn is an image whose layers cannot be read.
type torn struct{ v1.Image }

func (torn) Layers() ([]v1.Layer, error) { return nil, errors.New("torn") }
