//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kind is what rooms are for: "cluster". Rooms of different kinds take no notice of each other.
type Kind string

// prefix begins the name of every such room's folder and cgroups.
func (k Kind) prefix() string { return "epx-" + string(k) + "-" }

// Room is what outlives the namespaces.
type Room struct {
	Name string // of the folder and, below every hierarchy's root, of the cgroup
	Dir  string // the folder's absolute path

	// lock is held by us and by every process in the namespaces: free means that the room is empty.
	lock *os.File
}

// New makes the folder.
func (k Kind) New() (*Room, error) {
	for range 10 {
		dir, err := os.MkdirTemp("", k.prefix())
		if err != nil {
			return nil, err
		}
		lock, err := tryLock(dir)
		if errors.Is(err, errLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // somebody sweeps, and was faster
		}
		r := &Room{Name: filepath.Base(dir), Dir: dir, lock: lock}
		if err == nil {
			// Processes that run as other users reach what is theirs through this folder.
			err = os.Chmod(dir, 0o711)
		}
		if err != nil {
			return nil, errors.Join(err, r.Remove())
		}
		return r, nil
	}
	return nil, fmt.Errorf("no folder of our own in %s: others keep removing it", os.TempDir())
}

// Remove removes cgroups and folder; the processes must have ended.
func (r *Room) Remove() error {
	// The folder goes last, for it is what a later Sweep finds.
	err := removeCgroups(r.Name)
	if err == nil {
		err = os.RemoveAll(r.Dir)
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	return err
}

var errLocked = errors.New("in use")

// tryLock takes the lock of a room's folder, or returns errLocked. It does not block.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	// Whoever held the lock until now may have removed the folder.
	ours, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(f.Name()); err != nil || !os.SameFile(ours, there) {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}
