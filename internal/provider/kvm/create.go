package kvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

// Create defines the domain with its marks, makes its volumes and starts it. It returns when the domain has been started. What
// stands there of the same attempt it completes.
//
// Nothing is removed here, and nothing is written over: whatever another process may have made of the same attempt, and may
// be using by now, is either just what is needed or a reason to refuse.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	ctx = p.calling(ctx, "create", ref.ID)
	err := p.create(ctx, req, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	const op = "create"
	at, err := p.check(op, ref.ID, req)
	if err != nil {
		return err
	}
	if at.String() != ref.ID || req.UID != ref.UID {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, fmt.Errorf("the plan leads to %s", at))
	}
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.window.Deadline(ref).Sub(p.window.Clock.Now()))
	defer cancel()
	m := &making{
		p: p, h: p.hosts[at.host], at: at, req: req, ref: ref,
		uuid: domainUUID(p.owner, ref.UID, ref.Attempt), names: volumesOf(p.owner, at.host, at.name, ref.UID, ref.Attempt),
		machine: p.config.MachineTypes[req.Placement.MachineType],
	}
	if err := m.run(ctx); err != nil {
		if _, ours := errors.AsType[*provider.Error](err); ours {
			return err
		}
		return p.fail(op, ref.ID, err)
	}
	return nil
}

// making is one creation.
type making struct {
	p       *Provider
	h       *host
	at      place
	req     provider.CreateRequest
	ref     provider.Ref
	uuid    uuid.UUID
	names   volumes
	machine MachineType

	pool pool
	base baseimage.Base
}

var errOtherSpec = errors.New("what stands there was begun from another spec, and is not completed")

func (m *making) run(ctx context.Context) (err error) {
	f, err := m.p.look(ctx, m.h, m.at, m.ref.UID, m.ref.Attempt)
	if err != nil {
		return err
	}
	if f != nil {
		if err := m.p.sameAttempt("create", m.h, m.ref, f); err != nil {
			return err
		}
		if !halfMade(f.power) {
			logger(ctx).V(2).Info("the domain is there already")
			return nil // it is started last, so all of it was
		}
		if f.marks.Spec != m.req.Spec {
			return errOtherSpec
		}
	}
	if f == nil {
		// It may have become full since it was planned.
		if err := m.p.fits(ctx, m.h, m.at, m.req, 0); err != nil {
			return err
		}
	}
	if m.base, err = m.h.base(ctx, m.req.Placement.Image, m.p.config.Images[m.req.Placement.Image]); err != nil {
		return err
	}
	if m.pool, err = m.h.pool(ctx); err != nil {
		return err
	}
	domain, err := m.define(ctx, f)
	if err != nil {
		return err
	}
	if err := m.disk(ctx); err != nil {
		return err
	}
	if err := m.seed(ctx); err != nil {
		return err
	}
	return m.start(ctx, domain)
}

// sending refuses what would be sent under a record that is too old by now. It comes before each call that changes something.
func (m *making) sending() error { return m.p.window.CheckSend(m.p.name, m.ref) }

// define makes the domain. That it is there by now is fine if it is of this attempt.
func (m *making) define(ctx context.Context, f *found) (libvirt.Domain, error) {
	if f != nil {
		return f.domain, nil
	}
	text, err := domainXML(guest{
		record:  recordOf(m.p.owner.MarksFor(m.req, m.ref), m.req.Port, macOf(m.uuid), m.h.config, m.p.window.Clock.Now()),
		name:    m.at.name,
		uuid:    m.uuid.String(),
		machine: m.machine,
		network: m.h.config.Network, bridge: m.h.config.Bridge,
		disk: m.pool.path(m.names.disk()), seed: m.pool.path(m.names.seed()),
	})
	if err != nil {
		return libvirt.Domain{}, err
	}
	if err := m.sending(); err != nil {
		return libvirt.Domain{}, err
	}
	d, err := m.h.define(ctx, text)
	if !answered(err) {
		return d, err
	}
	// libvirt has one code for a name that is taken and for much else.
	f, lookErr := m.p.look(ctx, m.h, m.at, m.ref.UID, m.ref.Attempt)
	if lookErr != nil || f == nil {
		return d, err
	}
	return f.domain, m.p.sameAttempt("create", m.h, m.ref, f)
}

// disk makes the overlay, or takes the one that is there if it is what would be made.
func (m *making) disk(ctx context.Context) error {
	basePath := m.pool.path(m.base.Volume)
	capacity := rounded(max(m.machine.DiskGiB*gib, m.base.VirtualSize))
	xml, err := overlayXML(m.names.disk(), capacity, basePath, m.base.Format)
	if err != nil {
		return err
	}
	if err := m.sending(); err != nil {
		return err
	}
	_, err = createVolume(ctx, m.h, m.pool.StoragePool, xml)
	if !exists(err) {
		return m.h.explainFull(ctx, m.h, m.pool.StoragePool, 0, err) // an overlay begins with next to nothing
	}
	v, err := lookupVolume(ctx, m.h, m.pool.StoragePool, m.names.disk())
	if err != nil {
		return err
	}
	desc, err := m.h.describeVolume(ctx, v)
	if err != nil {
		return err
	}
	if b := desc.BackingStore; b == nil || b.Path != basePath || b.Format == nil || b.Format.Type != m.base.Format {
		return errors.New("the disk that is there stands on another base image, and is not reused")
	}
	if s, err := volumeSizes(ctx, m.h, v); err != nil {
		return err
	} else if s.capacity != capacity {
		return fmt.Errorf("the disk that is there has %d bytes, not %d, and is not reused", s.capacity, capacity)
	}
	return nil
}

// rounded is the size in bytes of the volume that libvirt makes where so many are asked for: it counts in KiB.
func rounded(size int64) int64 { return (size + 1023) &^ 1023 }

// seed makes the volume with the cloud-init data. One of the same size that is there may be half written; what is written again
// is the same.
func (m *making) seed(ctx context.Context) error {
	image, err := seedISO(m.uuid.String(), m.at.name, m.req.CloudInit, m.p.config.InstallGuestAgent)
	if err != nil {
		return err
	}
	size := int64(len(image))
	xml, err := rawXML(m.names.seed(), size, size)
	if err != nil {
		return err
	}
	if err := m.sending(); err != nil {
		return err
	}
	v, err := createVolume(ctx, m.h, m.pool.StoragePool, xml)
	if exists(err) {
		if v, err = lookupVolume(ctx, m.h, m.pool.StoragePool, m.names.seed()); err != nil {
			return err
		}
		s, err := volumeSizes(ctx, m.h, v)
		if err != nil {
			return err
		}
		if s.capacity != size {
			return fmt.Errorf("the seed that is there has %d bytes, not %d", s.capacity, size)
		}
	} else if err != nil {
		return m.h.explainFull(ctx, m.h, m.pool.StoragePool, size, err)
	}
	// The host's place comes first: those of a host that is slow wait for it, and not in the way of others.
	for _, places := range []chan struct{}{m.h.seeds, m.p.seeds} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		defer func() { <-places }()
	}
	if err := m.sending(); err != nil {
		return err
	}
	return m.h.explainFull(ctx, m.h, m.pool.StoragePool, size, upload(ctx, m.h, v, bytes.NewReader(image), size))
}

// start is last: a domain that was on has all that it needs.
func (m *making) start(ctx context.Context, d libvirt.Domain) error {
	if err := m.sending(); err != nil {
		return err
	}
	if err := m.h.start(ctx, d); err != nil {
		if !answered(err) {
			return err
		}
		// It may be that another process was first.
		now, e := m.h.power(ctx, d)
		if e != nil || stateOf(now).state != provider.StateRunning {
			return err
		}
	}
	// A guest that does not answer its agent must not hold up the daemon. It is not worth a failure: the daemon of an old host
	// does not know the call.
	if err := m.h.limitAgent(ctx, d, agentSeconds); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// answered reports whether err is the daemon's own, so that what was asked for has not happened.
func answered(err error) bool {
	_, ok := errors.AsType[libvirt.Error](err)
	return ok
}

func exists(err error) bool {
	e, ok := errors.AsType[libvirt.Error](err)
	return ok && e.Code == uint32(libvirt.ErrStorageVolExist)
}

func (p pool) path(volume string) string { return p.folder + "/" + volume }
