package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// prepare returns a folder of this user's cache that holds all of wanted. When it lacks one, get puts them into a folder
// beside it, which then takes its place: whoever looks sees all or nothing.
func prepare(ctx context.Context, folder string, wanted []binary, progress io.Writer, get func(dir string) error) (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	dir := filepath.Join(root, "egress-proxies-operator", "controlplane", folder)
	if missingIn(dir, wanted) == "" {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if missingIn(dir, wanted) == "" { // another process was faster
		return dir, nil
	}
	if err := ctx.Err(); err != nil { // waiting for the lock may have taken minutes
		return "", err
	}
	tmp := dir + ".partial"
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	if err := get(tmp); err != nil {
		return "", err
	}
	if missing := missingIn(tmp, wanted); missing != "" {
		return "", fmt.Errorf("the binaries were prepared in %s, yet %s is missing there", tmp, missing)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(tmp, dir)); err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "controlplane: ready in %s\n", dir)
	return dir, nil
}

// lock takes an exclusive lock on path, waiting as long as it takes: the holder may be building.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
