package boxes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// codeError is an error that the service names. Its text is ours: what the service writes may quote what it was sent.
type codeError struct {
	code       string
	retryAfter time.Duration
}

func (e codeError) Error() string { return fmt.Sprintf("the service answered %q", e.code) }

// Is makes codes comparable, whatever delay came with them.
func (e codeError) Is(other error) bool {
	o, ok := other.(codeError)
	return ok && o.code == e.code
}

// Those that the provider itself asks for.
var (
	errNoBox       = codeError{code: "no_box"}
	errTaken       = codeError{code: "name_taken"}
	errOtherSerial = codeError{code: "other_serial"}
)

// classes is what each code of the service means, in answers and in boxes that are broken alike. no_rack is missing on purpose:
// that the rack is not there says nothing about the box.
var classes = map[string]error{
	"no_box":       provider.ErrNotFound,
	"name_taken":   provider.ErrTransient, // by something that was gone when we looked
	"rack_full":    provider.ErrQuotaExceeded,
	"bad_request":  provider.ErrPermanent,
	"unauthorized": provider.ErrDenied,
}

// fail makes a provider's error of what happened; nil stays nil.
func (p *Provider) fail(op, id string, err error) error {
	if err == nil {
		return nil
	}
	var c codeError
	errors.As(err, &c)
	class, ok := classes[c.code]
	if !ok {
		class = provider.ErrTransient
	}
	wrapped := provider.Wrap(class, op, p.name, id, err).WithRetryAfter(c.retryAfter)
	if c.code == "" && !errors.Is(err, context.Canceled) {
		wrapped = wrapped.WithReason(provider.ReasonUnreachable) // no answer at all
	}
	return wrapped
}

// withID says which instance an error of planning was about.
func (p *Provider) withID(err error, id string) error {
	return provider.Wrap(provider.Class(err), "create", p.name, id, causeOf(err)).WithReason(provider.Reason(err))
}

// causeOf returns what happened without the call that it happened in.
func causeOf(err error) error {
	var e *provider.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// bounded gives every call an end.
func (p *Provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.window.CallTimeout)
}
