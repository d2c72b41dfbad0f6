package instrument

import (
	"errors"
	"fmt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// ShutError is in the chain of every error of a call that a shut gate did not let through, and of one that has shut it. Its
// text names the target and what it said. It is the same for everybody for as long as the gate stays shut: it lands in the
// condition of every Proxy that waits, so it holds neither times nor counts. The wait that goes with it is the gate's, not
// one that the backend has asked for: who asks sooner is refused without asking anybody.
type ShutError struct {
	text string
	err  error
}

// Error says why.
func (e *ShutError) Error() string { return e.text }

// Unwrap returns the backend's own error, nil if it was not asked.
func (e *ShutError) Unwrap() error { return e.err }

// IsShut reports whether err is of a call that met a shut gate, or has shut it.
func IsShut(err error) bool {
	_, ok := errors.AsType[*ShutError](err)
	return ok
}

// HasGate reports whether a target of p that is denied or unreachable is kept from being asked.
func HasGate(p provider.Provider) bool { return guardOf(p) != nil }

// named is how a target is called in texts.
func named(name string) string {
	switch name {
	case listTarget:
		return "the provider's list"
	case "":
		return "the provider"
	}
	return "target " + name
}

// refuse turns a refusal into the error of the call, which has met it or, with an err of its own, brought it about.
func (g *guarded) refuse(op, id, name string, why refusal, err error) *provider.Error {
	class, reason, verb := provider.ErrTransient, provider.ReasonUnreachable, "did not answer"
	switch why.shut {
	case shutNot:
		err := fmt.Errorf("%s is busy: its calls in flight are at their limit", named(name))
		return provider.Wrap(class, op, g.name, id, err).WithReason(provider.ReasonBusy)
	case shutDenied:
		class, reason, verb = provider.ErrDenied, "", "refuses the operator"
	case shutSilent:
	}
	text := named(name) + " " + verb
	if why.cause != "" {
		text += " (" + why.cause + ")"
	}
	text += "; it is tried again now and then"
	return provider.Wrap(class, op, g.name, id, &ShutError{text, err}).WithReason(reason).WithRetryAfter(why.wait)
}
