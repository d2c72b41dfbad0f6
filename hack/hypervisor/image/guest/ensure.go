package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Ensure returns the file of a guest's disk, from this user's cache when it has one of the present recipe; otherwise it is
// made, which takes about two minutes on two cores, root and the network. Progress in words goes to progress. It blocks
// until the file is there; several processes may call it at the same time and one does the work.
func Ensure(ctx context.Context, mirror string, progress io.Writer) (string, error) {
	file, err := Path()
	if err != nil || exists(file) {
		return file, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(file + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(file) { // another process was faster
		return file, nil
	}
	if err := ctx.Err(); err != nil { // waiting for the lock may have taken minutes
		return "", err
	}
	unix.Umask(0o022) // apt and guests read as users other than root
	// What a killed run has left goes first: nobody else is at it.
	work := file + ".partial"
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return "", err
	}
	image, err := build(ctx, mirror, work, progress)
	if err == nil {
		err = os.Rename(image, file)
	}
	return file, errors.Join(err, os.RemoveAll(work))
}

// Path is where the file is or will be.
func Path() (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	recipe, err := Recipe()
	return filepath.Join(root, "egress-proxies-operator", "guest-"+recipe+".qcow2"), err
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
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
