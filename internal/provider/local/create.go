package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Create takes a free slot, writes the record and starts the process. It returns when the process listens, usually
// within 50 ms, and at most after five seconds. A process that does not come up is taken away again, record and all.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	const op = "create"
	if err := p.check(op, ref.ID, req); err != nil {
		return err
	}
	if planned := p.id(req.Name); planned != ref.ID {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, fmt.Errorf("the plan leads to %s", planned))
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	unlock, err := p.lockDir(ctx, unix.LOCK_EX)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	defer unlock()
	if err := p.sweep(); err != nil {
		return p.fail(op, ref.ID, err)
	}
	switch found, err := p.read(req.Name); {
	case err == nil:
		return p.sameAttempt(op, ref, req.UID, found)
	case !errors.Is(err, fs.ErrNotExist):
		return p.fail(op, ref.ID, err)
	}
	taken, err := p.all()
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	s, err := free(p.pool, taken, req.Port, usableFor(ctx, req.Port))
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	p.step("looked")
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	// What is sent within the window also takes effect within it, or not at all.
	ctx, late := context.WithTimeout(ctx, p.window.Deadline(ref).Sub(p.window.Clock.Now()))
	defer late()
	r := record{
		Version: recordVersion, Host: p.host, Name: req.Name, Identity: uuid.NewString(), CreatedAt: p.window.Clock.Now().UTC(),
		Marks: p.owner.MarksFor(req, ref), Listen: s.listen, Port: req.Port, Exit: s.exit, Authenticated: req.Credentials != nil,
	}
	if err := p.bringUp(ctx, r, req.Credentials); err != nil {
		return p.fail(op, ref.ID, err)
	}
	return nil
}

// bringUp makes the instance of r, the record first. After an error nothing of it is left, unless the error says so.
func (p *Provider) bringUp(ctx context.Context, r record, creds *provider.Credentials) error {
	if err := p.write(r); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	p.step("recorded")
	var err error
	if creds != nil {
		if err = p.writeAuth(r.Name, *creds); err != nil {
			err = fmt.Errorf("writing the credentials: %w", err)
		}
		p.step("authorized")
	}
	if err == nil {
		err = p.start(ctx, r)
	}
	if err == nil {
		return nil
	}
	if left := p.remove(r.Name); left != nil {
		return fmt.Errorf("%w; taking it away again: %w", err, left)
	}
	return err
}

// sameAttempt judges an instance that stands where one is to be created: it is the one asked for, or it is in the way.
func (p *Provider) sameAttempt(op string, ref provider.Ref, uid string, found record) error {
	if err := p.owner.Foreign(found.Marks, uid); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	if found.Marks.Attempt != ref.Attempt {
		return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID,
			fmt.Errorf("attempt %d stands there, not %d", found.Marks.Attempt, ref.Attempt)).WithReason(provider.ReasonAttemptMismatch)
	}
	return nil
}
