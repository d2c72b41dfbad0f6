package providertest

import (
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// classes is how a Stateful classifies what its backend says, in calls and in operations alike; the first match counts.
var classes = []struct{ err, class error }{
	{errAbsent, provider.ErrNotFound},
	{errCapacity, provider.ErrQuotaExceeded},
	{errExists, provider.ErrTransient}, // taken, but by something that cannot be read yet
	{errUnreachable, provider.ErrTransient},
	{errTimeout, provider.ErrTransient},
	{provider.ErrQuotaExceeded, provider.ErrQuotaExceeded},
	{provider.ErrPermanent, provider.ErrPermanent},
	{provider.ErrConflict, provider.ErrConflict},
	{provider.ErrDenied, provider.ErrDenied},
}

// wrap turns a backend's error into a provider's; nil stays nil. errAbsent becomes ErrNotFound, so whoever has not
// proven absence must not pass it here.
func (s *Stateful) wrap(op, id string, err error) error {
	if err == nil {
		return nil
	}
	class := provider.ErrTransient
	for _, c := range classes {
		if errors.Is(err, c.err) {
			class = c.class
			break
		}
	}
	wrapped := provider.Wrap(class, op, s.name, id, err)
	if reason := provider.Reason(err); reason != "" {
		wrapped = wrapped.WithReason(reason)
	}
	var a asked
	if errors.As(err, &a) {
		wrapped = wrapped.WithRetryAfter(a.delay)
	}
	return wrapped
}

// causeOf returns what happened without the call it happened in.
func causeOf(err error) error {
	var e *provider.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
