package kvm

import (
	"context"
	"errors"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// callLimit bounds one call to a daemon, besides what its caller allows. Uploads take what they take.
const callLimit = 20 * time.Second

// caller makes calls to one daemon: on the host's shared connection, or on one of its own.
type caller interface {
	call(ctx context.Context, name string, f func(session.API) error) error
}

type shared struct{ host *session.Host }

func (s shared) call(ctx context.Context, name string, f func(session.API) error) error {
	_, err := session.Call(lined(ctx), s.host, name, func(api session.API) (struct{}, error) { return struct{}{}, f(api) })
	return err
}

type own struct{ link *session.Link }

func (o own) call(ctx context.Context, name string, f func(session.API) error) error {
	_, err := session.On(lined(ctx), o.link, name, func(api session.API) (struct{}, error) { return struct{}{}, f(api) })
	return err
}

// proofLimit is how long a host that has not answered a call about one domain may take to prove that it answers at all.
const proofLimit = 3 * time.Second

// noAnswerError says that a daemon has let a call wait for too long.
type noAnswerError struct {
	call string
	// domain: it was about a single domain, which QEMU or another call may be holding up.
	domain bool
}

func (e *noAnswerError) Error() string {
	if e.domain {
		return "no answer to " + e.call + " in time; the domain may be held up"
	}
	return "no answer to " + e.call + " within " + callLimit.String()
}

// ask makes one call. What it returns is nobody else's: a call that was given up may still be writing its own copy.
func ask[T any](ctx context.Context, c caller, name string, f func(session.API) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, &noAnswerError{call: name})
	defer cancel()
	return unlimited(ctx, c, name, f)
}

// tellDomain makes a call for which the daemon takes a lock of the domain's. That there is no answer need not be the host's
// fault: libvirt waits up to 30 s for such a lock, and a domain that is stuck must not make its host count as silent. So the
// host is asked for something else then.
func tellDomain(ctx context.Context, h *host, name string, f func(session.API) error) error {
	limit := callLimit
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		limit = min(limit, max(left-proofLimit, left/2))
	}
	cctx, cancel := context.WithTimeoutCause(ctx, limit, &noAnswerError{call: name, domain: true})
	defer cancel()
	_, err := unlimited(cctx, h, name, func(api session.API) (struct{}, error) { return struct{}{}, f(api) })
	if e, ok := errors.AsType[*noAnswerError](err); !ok || !e.domain {
		return err
	}
	pctx, cancel := context.WithTimeoutCause(ctx, proofLimit, &noAnswerError{call: name})
	defer cancel()
	if _, silent := unlimited(pctx, h, "ConnectGetLibVersion", session.API.ConnectGetLibVersion); silent != nil && !answered(silent) {
		return silent
	}
	return err
}

func unlimited[T any](ctx context.Context, c caller, name string, f func(session.API) (T, error)) (T, error) {
	answer := make(chan T, 1)
	err := c.call(ctx, name, func(api session.API) error {
		v, err := f(api)
		if err == nil {
			answer <- v
		}
		return err
	})
	if err != nil {
		var zero T
		if _, ok := errors.AsType[*dial.Error](err); ok {
			return zero, err // it is about the host, whatever was to be asked
		}
		return zero, &callError{name, err}
	}
	return <-answer, nil
}

func tell(ctx context.Context, c caller, name string, f func(session.API) error) error {
	_, err := ask(ctx, c, name, func(api session.API) (struct{}, error) { return struct{}{}, f(api) })
	return err
}

// callError says which call has failed.
type callError struct {
	call string
	err  error
}

func (e *callError) Error() string { return e.call + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// Domains.

func (h *host) lookup(ctx context.Context, name string) (libvirt.Domain, error) {
	return ask(ctx, h, "DomainLookupByName", func(api session.API) (libvirt.Domain, error) { return api.DomainLookupByName(name) })
}

func (h *host) lookupUUID(ctx context.Context, id libvirt.UUID) (libvirt.Domain, error) {
	return ask(ctx, h, "DomainLookupByUUID", func(api session.API) (libvirt.Domain, error) { return api.DomainLookupByUUID(id) })
}

func (h *host) domains(ctx context.Context) ([]libvirt.Domain, error) {
	return ask(ctx, h, "ConnectListAllDomains", func(api session.API) ([]libvirt.Domain, error) {
		all, _, err := api.ConnectListAllDomains(1, 0)
		return all, err
	})
}

// metadata returns our element, "" where there is none.
func (h *host) metadata(ctx context.Context, d libvirt.Domain) (string, error) {
	text, err := ask(ctx, h, "DomainGetMetadata", func(api session.API) (string, error) {
		return api.DomainGetMetadata(d, int32(libvirt.DomainMetadataElement), libvirt.OptString{namespace}, libvirt.DomainAffectCurrent)
	})
	if e, ok := errors.AsType[libvirt.Error](err); ok && e.Code == uint32(libvirt.ErrNoDomainMetadata) {
		return "", nil
	}
	return text, err
}

// power is a domain's state with libvirt's reason for it.
type power struct {
	state  libvirt.DomainState
	reason int32
}

func (h *host) power(ctx context.Context, d libvirt.Domain) (power, error) {
	return ask(ctx, h, "DomainGetState", func(api session.API) (power, error) {
		state, reason, err := api.DomainGetState(d, 0)
		return power{libvirt.DomainState(state), reason}, err
	})
}

func (h *host) define(ctx context.Context, xml string) (libvirt.Domain, error) {
	return ask(ctx, h, "DomainDefineXMLFlags", func(api session.API) (libvirt.Domain, error) {
		return api.DomainDefineXMLFlags(xml, libvirt.DomainDefineValidate)
	})
}

func (h *host) start(ctx context.Context, d libvirt.Domain) error {
	return tellDomain(ctx, h, "DomainCreateWithFlags", func(api session.API) error {
		_, err := api.DomainCreateWithFlags(d, 0)
		return err
	})
}

func (h *host) limitAgent(ctx context.Context, d libvirt.Domain, seconds int32) error {
	return tellDomain(ctx, h, "DomainAgentSetResponseTimeout", func(api session.API) error {
		_, err := api.DomainAgentSetResponseTimeout(d, seconds, 0)
		return err
	})
}

func (h *host) destroy(ctx context.Context, d libvirt.Domain, flags libvirt.DomainDestroyFlagsValues) error {
	return tellDomain(ctx, h, "DomainDestroyFlags", func(api session.API) error { return api.DomainDestroyFlags(d, flags) })
}

func (h *host) undefine(ctx context.Context, d libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return tellDomain(ctx, h, "DomainUndefineFlags", func(api session.API) error { return api.DomainUndefineFlags(d, flags) })
}

// memoryOf returns what a domain may take, in KiB.
func (h *host) memoryOf(ctx context.Context, d libvirt.Domain) (uint64, error) {
	return ask(ctx, h, "DomainGetInfo", func(api session.API) (uint64, error) {
		_, kib, _, _, _, err := api.DomainGetInfo(d)
		return kib, err
	})
}
