package boxes

import (
	"context"
	"errors"
	"fmt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Create looks, checks the clock, and sends. What is there already is judged by its marks: this attempt's own box is success.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	const op = "create"
	at, err := p.planned(ctx, op, req)
	if err != nil {
		return p.withID(err, ref.ID)
	}
	if at.String() != ref.ID || req.UID != ref.UID || ref.Attempt < 1 {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, fmt.Errorf("the record does not belong to the request, which is planned as %s", at))
	}
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	// The record bounds the call, not only this process's patience: whoever takes over counts from it.
	ctx, cancel := context.WithTimeout(ctx, p.window.Deadline(ref).Sub(p.window.Clock.Now()))
	defer cancel()
	if there, err := p.standing(ctx, at, ref); there || err != nil {
		return err
	}
	// Again, right before sending: the look may have taken long, and a process that was paused must not wake up and create.
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	err = p.api.create(ctx, at, order{
		Tags: p.owner.MarksFor(req, ref).ToMap(), Port: req.Port,
		Username: req.Credentials.Username, Password: req.Credentials.Password,
	})
	if errors.Is(err, errTaken) {
		// Somebody was faster: this attempt's other call, another attempt, or a stranger.
		if there, err := p.standing(ctx, at, ref); there || err != nil {
			return err
		}
	}
	return p.fail(op, ref.ID, err)
}

// standing reports whether the attempt itself stands there; anything else that does is an error.
func (p *Provider) standing(ctx context.Context, at place, ref provider.Ref) (bool, error) {
	const op = "create"
	b, err := p.api.get(ctx, at)
	if errors.Is(err, errNoBox) {
		return false, nil
	}
	if err != nil {
		return false, p.fail(op, ref.ID, err)
	}
	marks, _ := provider.MarksFromMap(b.Tags)
	if err := p.owner.Foreign(marks, ref.UID); err != nil {
		return false, provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	if marks.Attempt != ref.Attempt {
		return false, provider.Wrap(provider.ErrTransient, op, p.name, ref.ID,
			fmt.Errorf("attempt %d stands there, not %d", marks.Attempt, ref.Attempt)).WithReason(provider.ReasonAttemptMismatch)
	}
	return true, nil
}
