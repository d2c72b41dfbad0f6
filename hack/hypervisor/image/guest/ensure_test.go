package guest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeTools puts programs into the PATH, and nothing else.
func fakeTools(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestWhatIsInTheCacheIsNotMade(t *testing.T) {
	fakeTools(t, nil)
	want, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(want), 0o755), os.WriteFile(want, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := Ensure(t.Context(), "", io.Discard); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAFailureLeavesNothingInTheCache(t *testing.T) {
	fakeTools(t, map[string]string{"apt-config": "", "unshare": "echo no route >&2; exit 1"})
	file, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), "file:/mirror", io.Discard); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
		t.Errorf("left are %q, %v, want the lock alone", left, err)
	}
}
