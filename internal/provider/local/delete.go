package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// stopGrace is how long a process may take to end after SIGTERM, its own grace of one second included.
const stopGrace = 1500 * time.Millisecond

// Delete stops the process of the named attempt, by SIGKILL if need be, and removes its files. It returns when nothing is
// left, at most after five seconds.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	const op = "delete"
	name, err := p.nameOf(op, ref.ID)
	if err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	r, gone, err := p.target(ctx, name, ref)
	if gone || err != nil {
		return err
	}
	// Stopping may take a second; nobody has to wait for it, so it happens outside the exclusive lock.
	if err := p.stop(ctx, r); err != nil {
		return p.fail(op, ref.ID, err)
	}
	unlock, err := p.lockDir(ctx, unix.LOCK_EX)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	defer unlock()
	if err := p.sweepTemporary(); err != nil {
		return p.fail(op, ref.ID, err)
	}
	if err := p.unlink(r); err != nil {
		return p.fail(op, ref.ID, err)
	}
	return nil
}

// target finds what ref names. gone is true when that attempt is absent, whatever else stands there.
func (p *Provider) target(ctx context.Context, name string, ref provider.Ref) (r record, gone bool, err error) {
	const op = "delete"
	unlock, err := p.lockDir(ctx, unix.LOCK_SH)
	if err != nil {
		return r, false, p.fail(op, ref.ID, err)
	}
	defer unlock()
	r, err = p.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, true, nil
	case err != nil:
		return r, false, p.fail(op, ref.ID, err)
	}
	if err := p.owner.Foreign(r.Marks, ref.UID); err != nil {
		return r, false, provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	return r, r.Marks.Attempt != ref.Attempt || (ref.Identity != "" && ref.Identity != r.Identity), nil
}

// stop ends the process that holds r and returns when it has.
func (p *Provider) stop(ctx context.Context, r record) error {
	pid, err := p.running(r)
	if pid <= 0 || err != nil {
		return err
	}
	// On Linux the handle pins this very process, so that a pid used anew cannot be hit: it is taken first, then the
	// record is asked once more who holds it.
	proc, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer proc.Release() //nolint:errcheck // nothing to do about it
	if again, err := p.running(r); err != nil || again != pid {
		return err
	}
	ended := func() bool {
		now, err := p.running(r)
		return err == nil && now != pid
	}
	if err := proc.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d: %w", pid, err)
	}
	grace, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if await(grace, ended) {
		return nil
	}
	if err := proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	if !await(ctx, ended) {
		return fmt.Errorf("process %d has not ended yet: %w", pid, context.Cause(ctx))
	}
	return nil
}

// running returns the holder of r's record, 0 when there is none or the record is another by now.
func (p *Provider) running(r record) (int, error) {
	now, err := p.read(r.Name)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && now.Identity != r.Identity) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := p.holder(r.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return pid, err
}

// unlink removes the files of r. It takes the record's lock first: a process that was started and has not got to it
// yet then finds it taken or gone, and ends.
func (p *Provider) unlink(r record) error {
	now, err := p.read(r.Name)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && now.Identity != r.Identity) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(p.path(r.Name, recordSuffix), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only locked
	release, err := instancelock.TryTake(f)
	if err != nil {
		return fmt.Errorf("the record is still held: %w", err)
	}
	return errors.Join(p.remove(r.Name), release())
}
