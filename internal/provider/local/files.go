package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is how often a wait for another process looks again.
const pollInterval = 10 * time.Millisecond

// lockDir takes the folder's lock, shared or exclusive. It blocks until it has it or ctx ends. While it is held, the
// path is known to lead to the folder that the provider works in.
func (p *Provider) lockDir(ctx context.Context, how int) (unlock func(), err error) {
	// The folder itself is locked: a lock file in it would be one more thing that is left in the end.
	f, err := p.folder.Open(".")
	if err != nil {
		return nil, fmt.Errorf("the state folder cannot be locked: %w", err)
	}
	got := func() bool {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		return !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR)
	}
	if !await(ctx, got) {
		err = ctx.Err()
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("waiting for the state folder's lock: %w", err)
	}
	if err := p.inPlace(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// inPlace makes sure that the folder at the configured path is the one the provider was made on. In another one, say the
// empty mount point of a volume that has gone, every absence would look like a proof.
func (p *Provider) inPlace(f *os.File) error {
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("the state folder cannot be read: %w", err)
	}
	found, err := os.Stat(p.dir)
	if err != nil {
		return fmt.Errorf("the state folder cannot be read: %w", err)
	}
	if !os.SameFile(held, found) {
		return errReplaced
	}
	return nil
}

// await looks until done says true or ctx ends. It looks at least once, unless ctx has ended before.
func await(ctx context.Context, done func() bool) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	return true
}

// writeTemp writes data durably to a new file beside file, for the owner's eyes only, and returns its name. After an error
// nothing is left of it.
func (p *Provider) writeTemp(file string, data []byte) (tmp string, err error) {
	tmp = file + tmpSuffix
	if err := p.removeFile(tmp); err != nil {
		return "", err
	}
	f, err := p.folder.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = p.folder.Remove(tmp)
		return "", err
	}
	return tmp, nil
}

// removeFile removes a file that may be absent.
func (p *Provider) removeFile(file string) error {
	if err := p.folder.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync makes the folder's entries durable.
func (p *Provider) sync() error {
	f, err := p.folder.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// entries returns the names in the folder.
func (p *Provider) entries() (names []string, err error) {
	f, err := p.folder.Open(".")
	if err != nil {
		return nil, err
	}
	names, err = f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// sweep removes what no record stands for: what a crashed writer left, and the credentials and logs of instances whose
// records somebody took away. The folder's lock is held exclusively.
func (p *Provider) sweep() error {
	names, err := p.entries()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for _, name := range names {
		owner, _, _ := strings.Cut(name, ".")
		left := strings.HasSuffix(name, tmpSuffix) || !there[owner+recordSuffix]
		if !left || !instanceName.MatchString(owner) || !ours(strings.TrimPrefix(name, owner)) {
			continue
		}
		if err := p.removeFile(name); err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether suffix is one that this package gives its files.
func ours(suffix string) bool {
	switch strings.TrimSuffix(suffix, tmpSuffix) {
	case recordSuffix, authSuffix, logSuffix:
		return true
	}
	return false
}

// readBounded returns what r holds, at most limit bytes and one more that tells an overlong source.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, limit+1))
}
