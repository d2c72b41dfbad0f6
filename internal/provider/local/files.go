package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is how often a wait for another process looks again.
const pollInterval = 10 * time.Millisecond

// lockDir takes the folder's lock, shared or exclusive. It blocks until it has it or ctx ends.
func (p *Provider) lockDir(ctx context.Context, how int) (unlock func(), err error) {
	// The folder itself is locked: a lock file in it would be one more thing that is left in the end.
	f, err := os.Open(p.dir)
	if err != nil {
		return nil, fmt.Errorf("the state folder cannot be locked: %w", errScope{err})
	}
	got := func() bool {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB) //nolint:gosec // descriptors fit
		return !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR)
	}
	if !await(ctx, got) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the state folder's lock: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
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

// writeFile writes data to a new file at path, for the owner's eyes only, and makes it durable.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func readFull(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
