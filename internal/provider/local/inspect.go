package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// leastRoom and leastFiles are what a file system has to have left for the files of an instance: its record and
	// credentials, each twice for an instant, and the beginning of a log.
	leastRoom  = 1 << 20
	leastFiles = 16
	// examined bounds how many free slots a check looks at once it has found one that can be used.
	examined = 256
)

// inspect fills in details and returns the first thing that is wrong.
func (p *Provider) inspect(ctx context.Context, details map[string]string) error {
	if err := executable(p.config.Binary); err != nil {
		return err
	}
	taken, err := p.inspectFolder(ctx, details)
	if err != nil {
		return err
	}
	return p.inspectPool(ctx, taken, details)
}

// executable reports what keeps the file from being run by this process.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &checkError{CheckBinaryMissing, fmt.Errorf("binary: %w", err)}
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a file", path)
	case err == nil:
		// The kernel knows of file systems without execution, too.
		if err = unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return &checkError{CheckBinaryNotExecutable, fmt.Errorf("binary: %w", err)}
	}
	return nil
}

// inspectFolder returns the records of the state folder. It takes the folder's lock as Get does, and lets it go at once.
func (p *Provider) inspectFolder(ctx context.Context, details map[string]string) ([]record, error) {
	unlock, err := p.lockDir(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := p.folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only asked
	fd := int(f.Fd())
	switch err := unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); {
	case errors.Is(err, unix.EROFS):
		return nil, &checkError{CheckStateDirReadOnly, fmt.Errorf("the state folder cannot be written to: %w", err)}
	case err != nil:
		return nil, fmt.Errorf("the state folder cannot be written to: %w", err)
	}
	if err := p.inspectRoom(fd, details); err != nil {
		return nil, err
	}
	return p.all()
}

// inspectRoom looks at what is left of the folder's file system.
func (p *Provider) inspectRoom(fd int, details map[string]string) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return fmt.Errorf("the state folder's file system cannot be read: %w", err)
	}
	blocks := uint64(st.Bavail) //nolint:unconvert // of another type on other systems
	if os.Geteuid() == 0 {
		blocks = uint64(st.Bfree) //nolint:unconvert // as above
	}
	free := blocks * uint64(st.Bsize) //nolint:gosec // it is not negative
	details["stateDirFreeMiB"] = strconv.FormatUint(free>>20, 10)
	switch {
	case free < leastRoom:
		return &checkError{CheckStateDirFull, errors.New("the state folder's file system has less than 1 MiB left")}
	case st.Files > 0 && uint64(st.Ffree) < leastFiles: //nolint:unconvert // as above
		return &checkError{CheckStateDirFull, fmt.Errorf("the state folder's file system has room for less than %d files more", leastFiles)}
	}
	return nil
}

// inspectPool counts slots and looks for one that an instance could be given. With none free there is nothing to look for.
func (p *Provider) inspectPool(ctx context.Context, taken []record, details map[string]string) error {
	exits := make(map[netip.Addr]struct{}, len(taken))
	for _, r := range taken {
		exits[r.Exit] = struct{}{}
	}
	total, left, missing := 0, 0, 0
	found := false
	var why error
	for _, r := range p.pool {
		for s := range r.slots() {
			if total == maxPoolAddresses {
				break
			}
			total++
			if _, ok := exits[s.exit]; ok {
				continue
			}
			left++
			if (found && left > examined) || missing >= maxUnusable {
				continue
			}
			switch err := present(ctx, s); {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				found = true
			default:
				if missing++; why == nil {
					why = err
				}
			}
		}
	}
	details["slots"], details["slotsFree"] = strconv.Itoa(total), strconv.Itoa(left)
	if missing > 0 {
		details["slotsMissing"] = strconv.Itoa(missing)
	}
	if left > 0 && !found {
		return &checkError{CheckAddressMissing, fmt.Errorf("no free slot of the pool has addresses of this host; the first: %w", why)}
	}
	return nil
}

// present reports whether both addresses are this host's. No port that a proxy could want is taken meanwhile: a socket of
// UDP shows it as well.
func present(ctx context.Context, s slot) error {
	for _, a := range []netip.Addr{s.listen, s.exit} {
		var c net.ListenConfig
		l, err := c.ListenPacket(ctx, "udp", netip.AddrPortFrom(a, 0).String())
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
		if s.exit == s.listen {
			break
		}
	}
	return nil
}
