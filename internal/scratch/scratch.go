// Package scratch gives a process a folder of its own for temporary files. What a process has left that was killed, which may
// be secrets, the next one removes: in a Pod the folder for temporary files outlives the container.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	prefix = "egress-proxies-operator-"
	// lockName is held by the process as long as it lives, however it ends.
	lockName = "lock"
)

// Folder is one process's.
type Folder struct {
	Path string
	lock *os.File
}

// tries is how often a folder is made anew that somebody has taken for left behind before it was locked.
const tries = 3

// New makes a folder below parent, readable for nobody else, and removes those of processes that are gone. It does not block.
func New(parent string) (f *Folder, err error) {
	for range tries {
		if f, err = locked(parent); err == nil {
			return f, sweep(parent)
		}
	}
	return nil, err
}

func locked(parent string) (*Folder, error) {
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, fmt.Errorf("making a folder for temporary files: %w", err)
	}
	lock, err := take(path, os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), os.RemoveAll(path))
	}
	return &Folder{path, lock}, nil
}

// Close removes the folder with all that is in it.
func (f *Folder) Close() error {
	// The lock is given up last: nobody else removes it meanwhile.
	return errors.Join(os.RemoveAll(f.Path), f.lock.Close())
}

// take locks a folder, without waiting.
func take(path string, flag int) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|syscall.O_NOFOLLOW|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// sweep removes the folders that nobody holds. One without a lock is being made right now, or was left in that moment with
// nothing in it, and stays.
func sweep(parent string) error {
	all, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range all {
		lock, err := take(path, 0)
		if err != nil {
			continue // somebody's, or not ours to read
		}
		err = errors.Join(os.RemoveAll(path), lock.Close())
		if err != nil {
			return fmt.Errorf("removing temporary files of a process that is gone: %w", err)
		}
	}
	return nil
}
