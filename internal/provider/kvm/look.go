package kvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// found is a domain as it was read.
type found struct {
	domain libvirt.Domain
	record record
	marks  provider.Marks
	power  power
}

func (f *found) uuid() uuid.UUID { return uuid.UUID(f.domain.UUID) }

// strange says why a domain on h is not uid's instance, nil if it is. One that was made by another name of the same host has
// another ID, and volumes that are not to be found from here.
func (p *Provider) strange(h *host, f *found, uid string) error {
	if err := p.owner.Foreign(f.marks, uid); err != nil {
		return err
	}
	if f.record.Host != h.config.Name {
		return fmt.Errorf("it was made when this host was called %q", f.record.Host)
	}
	if f.uuid() != domainUUID(p.owner, f.marks.UID, f.marks.Attempt) {
		return errors.New("it is a copy of an instance, with its marks but a UUID of its own")
	}
	return nil
}

// runsOn reports whether a domain is by its UUID the one that was made for the attempt, whatever its marks say by now: the
// attempt's volumes are under it.
func (p *Provider) runsOn(f *found, ref provider.Ref) bool {
	return f.uuid() == domainUUID(p.owner, ref.UID, ref.Attempt)
}

// look reads the domain that has the attempt's UUID, under whatever name, or else the one that has the name. Nil is proof that
// there was neither.
func (p *Provider) look(ctx context.Context, h *host, at place, uid string, attempt int64) (*found, error) {
	id := domainUUID(p.owner, uid, attempt)
	named, err := h.read(ctx, func(ctx context.Context) (libvirt.Domain, error) { return h.lookup(ctx, at.name) })
	if err != nil || named != nil && named.uuid() == id {
		return named, err
	}
	// Somebody may have renamed it, and given the name to another one.
	renamed, err := h.read(ctx, func(ctx context.Context) (libvirt.Domain, error) { return h.lookupUUID(ctx, libvirt.UUID(id)) })
	if renamed != nil || err != nil {
		return renamed, err
	}
	return named, nil
}

// read reads a domain with its marks; nil if it is not there, or has gone meanwhile.
func (h *host) read(ctx context.Context, lookup func(context.Context) (libvirt.Domain, error)) (*found, error) {
	d, err := lookup(ctx)
	var f *found
	if err == nil {
		f, err = h.describe(ctx, d)
	}
	if session.Absent(err) {
		return nil, nil //nolint:nilnil // that it is not there is the answer
	}
	return f, err
}

// marked reads a domain without its state.
func (h *host) marked(ctx context.Context, d libvirt.Domain) (*found, error) {
	text, err := h.metadata(ctx, d)
	if err != nil {
		return nil, err
	}
	f := &found{domain: d}
	f.record, f.marks = parseRecord(text)
	return f, nil
}

// describe reads all of a domain.
func (h *host) describe(ctx context.Context, d libvirt.Domain) (*found, error) {
	f, err := h.marked(ctx, d)
	if err == nil {
		f.power, err = h.power(ctx, d)
	}
	return f, err
}

// rests are the volumes of ours in a pool that belong to the owner, by attempt.
func (p *Provider) rests(ctx context.Context, h *host, uid string) ([]volumes, error) {
	pool, err := h.poolOn(ctx, h)
	if err != nil {
		return nil, err
	}
	names, err := volumeNames(ctx, h, pool)
	if err != nil {
		return nil, err
	}
	var out []volumes
	for _, name := range names {
		v, ok := parseVolume(name)
		if !ok || v.uid != uid || v.owner != volumesOf(p.owner, h.config.Name, "", "", 0).owner {
			continue
		}
		if len(out) == 0 || out[len(out)-1] != v {
			out = append(out, v)
		}
	}
	return out, nil
}

// sameAttempt judges a domain that stands where the attempt belongs that ref names.
func (p *Provider) sameAttempt(op string, h *host, ref provider.Ref, f *found) error {
	if err := p.strange(h, f, ref.UID); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	if f.marks.Attempt != ref.Attempt {
		return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID, fmt.Errorf("attempt %d stands there, not %d", f.marks.Attempt, ref.Attempt)).
			WithReason(provider.ReasonAttemptMismatch)
	}
	return nil
}
