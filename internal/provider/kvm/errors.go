package kvm

import (
	"context"
	"errors"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// codes is what an error of libvirt's means. What is not listed is transient: most of what goes wrong on a host passes.
//
// A domain or volume that is not there never gets this far as long as it was the one asked for. Messages are never read: that
// a pool is full, say, comes from its own figures (see Plan and explainFull).
var codes = map[libvirt.ErrorNumber]error{
	// The host does not let us in, or not do this: a matter of the host, not of one Proxy.
	libvirt.ErrAuthFailed:      provider.ErrDenied,
	libvirt.ErrAuthCancelled:   provider.ErrDenied,
	libvirt.ErrAuthUnavailable: provider.ErrDenied,
	libvirt.ErrAccessDenied:    provider.ErrDenied,
	libvirt.ErrOperationDenied: provider.ErrDenied,
	// What was asked for is not possible with this configuration. A pool or a network that is missing is not among it: somebody
	// may be about to start it, and no spec would change then to release a latch.
	libvirt.ErrXMLError:             provider.ErrPermanent,
	libvirt.ErrXMLDetail:            provider.ErrPermanent,
	libvirt.ErrXMLInvalidSchema:     provider.ErrPermanent,
	libvirt.ErrConfigUnsupported:    provider.ErrPermanent,
	libvirt.ErrInvalidArg:           provider.ErrPermanent,
	libvirt.ErrNoSupport:            provider.ErrPermanent,
	libvirt.ErrArgumentUnsupported:  provider.ErrPermanent,
	libvirt.ErrOperationUnsupported: provider.ErrPermanent,
	libvirt.ErrOsType:               provider.ErrPermanent,
	libvirt.ErrInvalidNetwork:       provider.ErrPermanent,
	libvirt.ErrNoMemory:             provider.ErrQuotaExceeded,
}

// silentRest is for how long a host that did not answer a dialing in time is not dialled again: those who ask all hosts, as lists
// do, would wait for it each time.
const silentRest = 10 * time.Second

// refusals are the reasons of a dialing that has been refused, which trying again does not change.
var refusals = map[string]bool{
	dial.SSHAuthFailed: true, dial.HostKeyUnknown: true, dial.HostKeyMismatch: true, dial.HostKeyRevoked: true,
	dial.KeyUnreadable: true, dial.KnownHostsUnreadable: true,
}

// classify says what a failure means.
//
//	refused by SSH, or another host there       denied
//	no connection, or one that was lost         transient, Unreachable
//	no answer in time                           transient, Unreachable; where one domain may be the reason, just transient
//	the caller's context ended                  transient
//	an error of libvirt                         see codes
func classify(err error) (reason string, class error) {
	// One of ours that is on its way up, say from the download of a base image.
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Reason, e.Class
	}
	for _, class := range []error{provider.ErrQuotaExceeded, provider.ErrPermanent, provider.ErrDenied} {
		if errors.Is(err, class) {
			return "", class
		}
	}
	if e, ok := errors.AsType[*dial.Error](err); ok {
		if refusals[e.Reason] {
			return "", provider.ErrDenied
		}
		return provider.ReasonUnreachable, provider.ErrTransient
	}
	if _, ok := errors.AsType[*session.MismatchError](err); ok {
		return "", provider.ErrDenied
	}
	if e, ok := errors.AsType[*noAnswerError](err); ok && e.domain {
		return "", provider.ErrTransient
	}
	if _, ok := errors.AsType[*noAnswerError](err); ok || session.Lost(err) || session.Unopened(err) {
		return provider.ReasonUnreachable, provider.ErrTransient
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "", provider.ErrTransient
	}
	if e, ok := errors.AsType[libvirt.Error](err); ok {
		if class := codes[libvirt.ErrorNumber(e.Code)]; class != nil { //nolint:gosec // an enumeration
			return "", class
		}
		return "", provider.ErrTransient
	}
	if e, ok := errors.AsType[*poolError](err); ok && !e.passing {
		return "", provider.ErrPermanent
	}
	return "", provider.ErrTransient
}

// fail turns what went wrong into the contract's error.
func (p *Provider) fail(op, id string, err error) *provider.Error {
	reason, class := classify(err)
	return provider.Wrap(class, op, p.name, id, said(err)).WithReason(reason).WithRetryAfter(retryAfter(err))
}

// downloadPoll is how often somebody who waits for a download looks how far it is.
const downloadPoll = 10 * time.Second

// retryAfter is the wait that a download asks for.
func retryAfter(err error) time.Duration {
	if _, ok := errors.AsType[*baseimage.Progress](err); ok {
		return downloadPoll
	}
	if f, ok := errors.AsType[*baseimage.Failure](err); ok {
		return f.RetryAfter
	}
	return 0
}

// cleaned is an error with a text that may be shown.
type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

func said(err error) error { return &cleaned{message.Clean(err.Error()), err} }
