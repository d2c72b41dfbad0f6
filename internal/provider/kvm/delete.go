package kvm

import (
	"cmp"
	"context"
	"errors"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// Delete switches the domain off, removes its volumes and then the domain, each by the UUID under which it was read with the
// marks of the named attempt. It returns when all are gone. Wherever it is interrupted, the domain is still there to say what
// is left, and the next call goes on.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	ctx = p.calling(ctx, "delete", ref.ID)
	err := p.delete(ctx, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) delete(ctx context.Context, ref provider.Ref) error {
	const op = "delete"
	at, h, err := p.placeOf(op, ref.ID)
	if err != nil {
		return err
	}
	if ref.Attempt <= 0 || ref.Identity != "" && ref.Identity != domainUUID(p.owner, ref.UID, ref.Attempt).String() {
		return nil // it is not one that this installation has made for that attempt
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	f, err := p.look(ctx, h, at, ref.UID, ref.Attempt)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	var strange error
	if f != nil {
		if strange = p.strange(h, f, ref.UID); strange == nil && f.marks.Attempt == ref.Attempt {
			if err := p.remove(ctx, h, at, ref, f); err != nil {
				return p.fail(op, ref.ID, err)
			}
			return nil
		}
	}
	// What is left of one whose domain somebody has undefined. It may stand beside a stranger, or a later attempt.
	if strange == nil || !p.runsOn(f, ref) {
		if err := p.removeVolumes(ctx, h, at, ref, h.config.Pool); err != nil {
			return p.fail(op, ref.ID, err)
		}
	}
	if strange != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, strange)
	}
	return nil
}

// undefineAll takes with the domain what libvirt keeps beside it; without these flags it would refuse.
const undefineAll = libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata |
	libvirt.DomainUndefineNvram | libvirt.DomainUndefineCheckpointsMetadata

// maxStarts is how often somebody may start a domain while it is being removed.
const maxStarts = 3

var errStarted = errors.New("somebody keeps starting the domain")

func (p *Provider) remove(ctx context.Context, h *host, at place, ref provider.Ref, f *found) error {
	for range maxStarts {
		if err := h.switchOff(ctx, f.domain); err != nil {
			return err
		}
		if err := p.removeVolumes(ctx, h, at, ref, cmp.Or(f.record.Pool, h.config.Pool)); err != nil {
			return err
		}
		if err := h.undefine(ctx, f.domain, undefineAll); err != nil && !session.Absent(err) {
			return err
		}
		// Undefining a domain that runs makes it one that exists only as long as it runs.
		_, err := h.lookupUUID(ctx, f.domain.UUID)
		if session.Absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errStarted
}

// switchOff ends a domain in whatever state it is. QEMU gets the chance to write what it holds; one that is stuck is killed.
func (h *host) switchOff(ctx context.Context, d libvirt.Domain) error {
	err := h.destroy(ctx, d, libvirt.DomainDestroyGraceful)
	if answered(err) && !session.Absent(err) && !h.isOff(ctx, d) {
		err = h.destroy(ctx, d, libvirt.DomainDestroyDefault)
	}
	if err == nil || session.Absent(err) {
		return nil
	}
	if answered(err) && h.isOff(ctx, d) {
		return nil
	}
	return err
}

func (h *host) isOff(ctx context.Context, d libvirt.Domain) bool {
	now, err := h.power(ctx, d)
	return session.Absent(err) || err == nil && (now.state == libvirt.DomainShutoff || now.state == libvirt.DomainCrashed)
}

// removeVolumes removes the disk and the seed of the attempt from the pool. Base images stay: others stand on them.
func (p *Provider) removeVolumes(ctx context.Context, h *host, at place, ref provider.Ref, pool string) error {
	pl, err := poolNamed(ctx, h, pool)
	if err != nil {
		return err
	}
	v := volumesOf(p.owner, at.host, at.name, ref.UID, ref.Attempt)
	for _, name := range []string{v.disk(), v.seed()} {
		if err := removeVolume(ctx, h, pl, name); err != nil {
			return err
		}
	}
	return nil
}
