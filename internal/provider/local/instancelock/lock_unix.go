//go:build linux || darwin

package instancelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrHeld says that another process holds the lock.
	ErrHeld = errors.New("state file is locked by another process")
	// ErrReplaced says that the path no longer leads to the locked file: the
	// record was deleted, or another one took its place.
	ErrReplaced = errors.New("state file was removed or replaced")
)

// Hold takes the lock on f for the rest of the process's life and then checks
// that path still leads to f, so that a process which opened the file just
// before a deleter unlinked it does not live without a record. f must be open
// for writing. It never blocks on the lock.
//
// Errors: [ErrHeld], [ErrReplaced] (the lock is then given back), or the
// system's error. After success f must stay open and reachable, and the process
// must never open the file again: closing any descriptor of it drops the lock.
func Hold(f *os.File, path string) error {
	if err := set(f, unix.F_SETLK, unix.F_WRLCK); err != nil {
		return err
	}
	if err := Verify(f, path); err != nil {
		return errors.Join(err, set(f, unix.F_SETLK, unix.F_UNLCK))
	}
	return nil
}

// Verify checks by Stat alone, so that it is safe while the lock is held, that
// path leads to f. It answers [ErrReplaced] when the path is absent or is
// another file, and any other error when the path could not be looked at, which
// proves nothing.
func Verify(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the open state file: %w", err)
	}
	found, err := os.Stat(path)
	switch {
	// A parent that turned into a file (ENOTDIR) is as absent as a missing one.
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: %s is absent", ErrReplaced, path)
	case err != nil:
		return fmt.Errorf("look at the state file: %w", err)
	case !os.SameFile(held, found):
		return fmt.Errorf("%w: %s is another file", ErrReplaced, path)
	}
	return nil
}

// Holder reports who holds the lock on f, which may be open for reading only.
// pid is positive for a process of the caller's pid namespace, 0 for one outside
// of it, and -1 for a deleter's lock on Linux. The caller's own POSIX lock is
// reported as not held. The answer is of the moment: to act on it, take the lock
// with [TryTake]. It never blocks.
func Holder(f *os.File) (pid int, held bool, err error) {
	lk := wholeFile(unix.F_WRLCK)
	if err := control(f, unix.F_GETLK, &lk); err != nil {
		return 0, false, fmt.Errorf("read the lock of %s: %w", f.Name(), err)
	}
	if lk.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return int(lk.Pid), true, nil
}

// TryTake takes the lock for a deleter, without waiting: while it is taken, a
// process that is about to start fails its [Hold]. f must be open for writing.
// The deleter unlinks the file first and calls release (or closes f) after, so
// that a late Hold finds the path gone. It answers [ErrHeld] when a process or
// another deleter has the lock.
func TryTake(f *os.File) (release func() error, err error) {
	if err := set(f, takeCmd, unix.F_WRLCK); err != nil {
		return nil, err
	}
	return func() error { return set(f, takeCmd, unix.F_UNLCK) }, nil
}

func set(f *os.File, cmd int, kind int16) error {
	lk := wholeFile(kind)
	err := control(f, cmd, &lk)
	switch {
	case err == nil:
		return nil
	// POSIX lets a system answer a conflict with either.
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %s", ErrHeld, f.Name())
	default:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

// wholeFile covers every byte, present and future: Len 0 means "to the end
// wherever that is". Pid stays 0, which open-file-description locks require.
func wholeFile(kind int16) unix.Flock_t {
	return unix.Flock_t{Type: kind, Whence: io.SeekStart}
}

// control runs fcntl through the raw connection, which keeps the descriptor
// from being closed meanwhile and, unlike Fd, leaves its blocking mode alone.
func control(f *os.File, cmd int, lk *unix.Flock_t) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) {
		for {
			result = unix.FcntlFlock(fd, cmd, lk)
			if !errors.Is(result, unix.EINTR) {
				return
			}
		}
	}); err != nil {
		return err
	}
	return result
}
