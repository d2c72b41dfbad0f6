package images

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

// TestATreeHoldsWhatLinksLeadThrough lays out a folder as distributions do: libraries behind links of links.
func TestATreeHoldsWhatLinksLeadThrough(t *testing.T) {
	// The folder for tests can itself lie behind links.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"usr/lib", "usr/share/data/sub"} {
		must(t, os.MkdirAll(at(d), 0o755))
	}
	for _, f := range []string{"usr/lib/libx.so.1.2", "usr/lib/unrelated", "usr/share/data/file", "usr/share/data/sub/file"} {
		must(t, os.WriteFile(at(f), nil, 0o640))
	}
	for link, target := range map[string]string{
		"lib": "usr/lib", "usr/lib/libx.so.1": "libx.so.1.2", "usr/lib/libx.so": at("lib/libx.so.1"), "usr/share/data/sub/up": "..",
		"nowhere": "usr/absent", "ring": "ring",
	} {
		must(t, os.Symlink(target, at(link)))
	}
	got := tree{}
	must(t, got.add(at("lib/../lib/libx.so")))
	must(t, got.add(at("usr/share/data")))
	names := slices.Sorted(maps.Keys(got))
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], dir+"/")
	}
	want := []string{
		"lib", "usr/lib/libx.so", "usr/lib/libx.so.1", "usr/lib/libx.so.1.2", "usr/share/data", "usr/share/data/file", "usr/share/data/sub",
		"usr/share/data/sub/file", "usr/share/data/sub/up",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got  %q\nwant %q", names, want)
	}
	if e := got[at("usr/lib/libx.so.1.2")]; e.Source != e.Path || e.Mode != 0o640 {
		t.Errorf("the library: %+v", e)
	}
	if _, err := layer.New(got.entries()...); err != nil {
		t.Errorf("it makes no layer: %v", err)
	}
	if err := got.add(at("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link to nowhere: %v", err)
	}
	if err := got.add(at("ring")); err == nil || !strings.Contains(err.Error(), "more than 40 links") {
		t.Errorf("a ring of links: %v", err)
	}
}
