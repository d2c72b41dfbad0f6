package provider

import (
	"errors"
	"fmt"
	"time"
)

// The classes of errors. Every error of a provider carries exactly one; see Class.
var (
	// ErrNotFound is proof that the instance is absent.
	ErrNotFound = errors.New("not found")
	// ErrQuotaExceeded: a limit that somebody has to raise or free; waited out slowly.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrTransient: it may work when tried again; retried with backoff, or after the delay the error carries.
	ErrTransient = errors.New("transient")
	// ErrPermanent: it will not work until the Proxy or the provider's configuration changes.
	ErrPermanent = errors.New("permanent")
	// ErrConflict: what holds the ID belongs to somebody else.
	ErrConflict = errors.New("conflict")
	// ErrDenied: the backend does not accept the operator at all; a state of the provider's target, not of the Proxy.
	ErrDenied = errors.New("denied")
)

// Reasons that an error may carry to become the reason of the Provisioned condition.
const (
	ReasonScopeMismatch    = "ScopeMismatch"
	ReasonOpenProxyRefused = "OpenProxyRefused"
	// ReasonAttemptMismatch: another attempt of the same Proxy holds the ID.
	ReasonAttemptMismatch = "AttemptMismatch"
	// ReasonAbsenceUnproven, with ErrConflict from Get: the ID is foreign, but a creation sent under the record could still
	// take effect, so our own's absence is not proven yet.
	ReasonAbsenceUnproven = "AbsenceUnproven"
	// ReasonWindowClosed: the record is too old for a Create to be sent under it.
	ReasonWindowClosed = "WindowClosed"
	// ReasonUnreachable, with ErrTransient: the part of the backend that the call is for does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonBusy, with ErrTransient: the call was not made because too many are in flight. It says nothing of the
	// backend, is no failure, and is worth another try soon.
	ReasonBusy = "Busy"
)

// Error is an error of one provider call. Its text never holds cloud-init or credentials.
type Error struct {
	// Class is one of the classes above.
	Class error
	// Op is plan, create, get, delete, list or updatecredentials.
	Op string
	// Provider is the configured name of the provider entry, not its type.
	Provider string
	// ID of the instance, empty for plan and list.
	ID string
	// Reason, where set, becomes the reason of the condition.
	Reason string
	// RetryAfter, where positive, is how long the backend asked to be left alone.
	RetryAfter time.Duration
	// Err is what happened, with the backend's own error in its chain.
	Err error
}

// Error names the provider, the operation, the instance and what happened.
func (e *Error) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("provider %s: %s: %v", e.Provider, e.Op, e.Err)
	}
	return fmt.Sprintf("provider %s: %s %s: %v", e.Provider, e.Op, e.ID, e.Err)
}

// Unwrap makes both the class and the cause visible to errors.Is and errors.As.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// Wrap returns an error of the given class. A nil err is replaced by the class itself.
func Wrap(class error, op, providerName, id string, err error) *Error {
	if err == nil {
		err = class
	}
	return &Error{Class: class, Op: op, Provider: providerName, ID: id, Err: err}
}

// WithReason sets the reason and returns e.
func (e *Error) WithReason(reason string) *Error { e.Reason = reason; return e }

// WithRetryAfter sets the delay and returns e.
func (e *Error) WithRetryAfter(d time.Duration) *Error { e.RetryAfter = d; return e }

// Class returns the class of err: that of the outermost *Error in its chain, ErrTransient for any other error, nil for
// nil.
func Class(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.Class != nil {
		return e.Class
	}
	return ErrTransient
}

// ClassName returns the class of err as a metric label: ok, not_found, quota_exceeded, transient, permanent, conflict
// or denied.
func ClassName(err error) string {
	switch Class(err) {
	case nil:
		return "ok"
	case ErrNotFound:
		return "not_found"
	case ErrQuotaExceeded:
		return "quota_exceeded"
	case ErrPermanent:
		return "permanent"
	case ErrConflict:
		return "conflict"
	case ErrDenied:
		return "denied"
	}
	return "transient"
}

// Reason returns the reason that err carries, "" for none.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// RetryAfter returns the delay that err carries, 0 for none.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Cause returns what happened without the provider's and the operation's name, for a condition that stands beside
// both.
func Cause(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}
