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
	p.step("found")
	// Stopping may take a second; nobody has to wait for it, so it happens outside the exclusive lock.
	if err := p.stop(ctx, r); err != nil {
		return p.fail(op, ref.ID, err)
	}
	p.step("stopped")
	unlock, err := p.lockDir(ctx, unix.LOCK_EX)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	defer unlock()
	if err := p.unlink(r); err != nil {
		return p.fail(op, ref.ID, err)
	}
	if err := p.sweep(); err != nil {
		return p.fail(op, ref.ID, err)
	}
	return nil
}

// target finds what ref names. gone is true when another attempt or identity stands there instead; where nothing does, r
// is the zero record and there may still be something to sweep.
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
		return record{Name: name}, false, nil
	case err != nil:
		return r, false, p.fail(op, ref.ID, err)
	}
	if err := p.owner.Foreign(r.Marks, ref.UID); err != nil {
		return r, false, provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	return r, r.Marks.Attempt != ref.Attempt || (ref.Identity != "" && ref.Identity != r.Identity), nil
}

// stop ends the process that is r's instance and returns when it has ended.
func (p *Provider) stop(ctx context.Context, r record) error {
	ended := func() bool {
		h, err := p.holding(r)
		return err == nil && h.pid == 0 && !h.ending
	}
	if err := p.signal(r, syscall.SIGTERM); err != nil {
		return err
	}
	grace, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if await(grace, ended) {
		return nil
	}
	if err := p.signal(r, syscall.SIGKILL); err != nil {
		return err
	}
	if !await(ctx, ended) {
		return fmt.Errorf("the process has not ended yet: %w", context.Cause(ctx))
	}
	return nil
}

// signal sends sig to the process that is r's instance, if there is one, and never to another.
func (p *Provider) signal(r record, sig syscall.Signal) error {
	h, err := p.holding(r)
	switch {
	case err != nil:
		return err
	case h.stranger != "":
		return fmt.Errorf("the record is held by %s; it is left alone", h.stranger)
	case h.pid == 0:
		return nil
	}
	// On Linux the handle pins this very process, so that a pid used anew cannot be hit: it is taken first, then the
	// record is asked once more who holds it.
	proc, err := os.FindProcess(h.pid)
	if err != nil {
		return err
	}
	defer proc.Release() //nolint:errcheck // nothing to do about it
	if again, err := p.holding(r); err != nil || again != h {
		return err // it has just ended; whoever waits for that finds out
	}
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending process %d: %w", h.pid, err)
	}
	p.step("signalled")
	return nil
}

// holding returns the holder of r's record, nobody when there is none or the record is another by now.
func (p *Provider) holding(r record) (hold, error) {
	now, err := p.read(r.Name)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && now.Identity != r.Identity) {
		return hold{}, nil
	}
	if err != nil {
		return hold{}, err
	}
	h, err := p.holder(r.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return hold{}, nil
	}
	return h, err
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
	f, err := p.folder.OpenFile(r.Name+recordSuffix, os.O_RDWR, 0)
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
