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
	if err := p.check(req); err != nil {
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
	if err := p.sweepTemporary(); err != nil {
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
	s, ok := free(p.pool, taken, req.Port)
	if !ok {
		return provider.Wrap(provider.ErrQuotaExceeded, op, p.name, ref.ID,
			fmt.Errorf("no free address in the pool for port %d; %d instances hold theirs", req.Port, len(taken)))
	}
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	r := record{
		Version: recordVersion, Host: p.host, Name: req.Name, Identity: uuid.NewString(), CreatedAt: p.window.Clock.Now().UTC(),
		Marks: p.owner.MarksFor(req, ref), Listen: s.listen, Port: req.Port, Exit: s.exit, Authenticated: req.Credentials != nil,
	}
	if err := p.bringUp(ctx, r, req.Credentials); err != nil {
		return p.fail(op, ref.ID, errors.Join(err, p.remove(req.Name)))
	}
	return nil
}

// bringUp makes the instance of r, the record first. What it made before an error is the caller's to remove.
func (p *Provider) bringUp(ctx context.Context, r record, creds *provider.Credentials) error {
	if err := p.write(r); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if creds != nil {
		if err := p.writeAuth(r.Name, *creds); err != nil {
			return fmt.Errorf("writing the credentials: %w", err)
		}
	}
	return p.start(ctx, r)
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

// UpdateCredentials replaces the credentials file; the process reads it again within a second or two. An instance that was
// created without credentials cannot take any.
func (p *Provider) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	const op = "updatecredentials"
	name, err := p.nameOf(op, ref.ID)
	if err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	unlock, err := p.lockDir(ctx, unix.LOCK_EX)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	defer unlock()
	found, err := p.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return provider.Wrap(provider.ErrNotFound, op, p.name, ref.ID, nil)
	}
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	if err := p.sameAttempt(op, ref, ref.UID, found); err != nil {
		return err
	}
	if !found.Authenticated {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, errors.New("the instance was created without credentials"))
	}
	if err := p.writeAuth(name, creds); err != nil {
		return p.fail(op, ref.ID, err)
	}
	return nil
}
