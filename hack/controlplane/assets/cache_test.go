package assets

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var wanted = []binary{{"a", etcdModule}, {"b", kubernetesModule + "/cmd/b"}}

// put makes programs of these names.
func put(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	return errors.Join(errs...)
}

func TestPrepareWorksOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var mu sync.Mutex
	got := 0
	get := func(dir string) error {
		mu.Lock()
		defer mu.Unlock()
		got++
		return put(dir, "a", "b")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			dir, err := prepare(t.Context(), "folder", wanted, io.Discard, get)
			if err != nil || missingIn(dir, wanted) != "" {
				t.Errorf("got %s, %v, and %q is missing there", dir, err, missingIn(dir, wanted))
			}
		})
	}
	all.Wait()
	if got != 1 {
		t.Errorf("four who asked at once made it %d times, want once", got)
	}
}

func TestPrepareShowsNothingUnfinished(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	folder := filepath.Join(cache, "egress-proxies-operator", "controlplane", "folder")
	for _, c := range []struct {
		reason, want string
		get          func(dir string) error
	}{
		{"a build that fails half-way", "no compiler", func(dir string) error { return errors.Join(put(dir, "a"), errors.New("no compiler")) }},
		{"a build that forgets one", "b is missing", func(dir string) error { return put(dir, "a") }},
	} {
		if _, err := prepare(t.Context(), "folder", wanted, io.Discard, c.get); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.reason, err, c.want)
		}
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %s is there: %v", c.reason, folder, err)
		}
	}
	if _, err := prepare(t.Context(), "folder", wanted, io.Discard, func(dir string) error { return put(dir, "b") }); err != nil {
		t.Errorf("the next goes on where that one stopped: %v", err)
	}
}

func TestOnlyKubernetesIsStamped(t *testing.T) {
	m := buildModule{kubernetes: "v1.37.2", etcd: "v3.7.0"}
	for _, b := range append(controlPlane, node...) {
		stamped := strings.Contains(m.ldflags(b.pkg), "gitVersion=v1.37.2") && strings.Contains(m.ldflags(b.pkg), "gitMinor=37")
		if want := b.name != "etcd"; stamped != want {
			t.Errorf("%s: stamped %v, want %v: %s", b.name, stamped, want, m.ldflags(b.pkg))
		}
	}
}
