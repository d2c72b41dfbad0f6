package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxCredentials is how long user name and password may be together, in bytes: what egress-proxy reads, less the colon and
// the line's end.
const maxCredentials = 4096 - 2

// UpdateCredentials replaces the credentials file; the process reads it again within a second or two. An instance that was
// created without credentials cannot take any.
func (p *Provider) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	const op = "updatecredentials"
	name, err := p.nameOf(op, ref.ID)
	if err != nil {
		return err
	}
	if err := checkCredentials(creds); err != nil {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, err)
	}
	passed := p.window.Passed(ref) // before the record is read, as in Get
	ctx, cancel := p.bound(ctx)
	defer cancel()
	unlock, err := p.lockDir(ctx, unix.LOCK_EX)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	defer unlock()
	found, err := p.read(name)
	if errors.Is(err, fs.ErrNotExist) && passed {
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

// checkCredentials refuses what egress-proxy would not take: a running one would silently stay with the old credentials.
// The errors hold nothing of either.
func checkCredentials(c provider.Credentials) error {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	switch {
	case c.Username == "" || c.Password == "":
		return errors.New("spec.auth: user name and password must not be empty")
	case strings.Contains(c.Username, ":"):
		return errors.New("spec.auth: the user name holds a colon")
	case strings.ContainsFunc(c.Username+c.Password, control):
		return errors.New("spec.auth: user name or password holds a control character, such as a line's end")
	case len(c.Username)+len(c.Password) > maxCredentials:
		return fmt.Errorf("spec.auth: user name and password have %d bytes, at most %d are allowed", len(c.Username)+len(c.Password), maxCredentials)
	}
	return nil
}
