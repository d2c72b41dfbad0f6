package kvm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

const (
	// maxMarks bounds in bytes what the caller decides of the metadata.
	maxMarks = 4096
	gib      = int64(1) << 30
)

// A UID becomes part of the names of volumes.
var uidPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// Plan checks req, chooses the host and sees whether that has room and the base image. One that is missing is fetched in the
// background, for all that need it; until it is there, Plan says how far that is. So a replacement for which an image has to
// be fetched leaves the old instance serving.
func (p *Provider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	const op = "plan"
	ctx = p.calling(ctx, op, "")
	if at, err := p.planned(req); err == nil {
		ctx = placed(ctx, at)
	}
	id, err := p.plan(ctx, req)
	outcome(ctx, err)
	return id, err
}

func (p *Provider) plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	const op = "plan"
	if err := ctx.Err(); err != nil {
		return "", p.fail(op, "", err)
	}
	at, err := p.check(op, "", req)
	if err != nil {
		return "", err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	h := p.hosts[at.host]
	image := p.config.Images[req.Placement.Image]
	if progress := h.images.Running(image.named(req.Placement.Image)); progress != nil {
		return "", p.fail(op, "", fmt.Errorf("host %s: %w", at.host, progress))
	}
	if err := p.fits(ctx, h, at, req, 0); err != nil {
		return "", p.fail(op, "", fmt.Errorf("host %s: %w", at.host, err))
	}
	base, err := h.base(ctx, req.Placement.Image, image)
	if err == nil && base.VirtualSize > p.config.MachineTypes[req.Placement.MachineType].DiskGiB*gib {
		err = p.fits(ctx, h, at, req, base.VirtualSize)
	}
	if err != nil {
		return "", p.fail(op, "", fmt.Errorf("host %s: %w", at.host, err))
	}
	if h.config.Network != "" {
		if err := h.hasNetwork(ctx); err != nil {
			return "", p.fail(op, "", fmt.Errorf("host %s: %w", at.host, err))
		}
	}
	return at.String(), nil
}

// check refuses what can never be satisfied, and chooses the host. op and id are those of the call that asks.
func (p *Provider) check(op, id string, req provider.CreateRequest) (place, error) {
	permanent := func(format string, args ...any) *provider.Error {
		return provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...))
	}
	_, imageKnown := p.config.Images[req.Placement.Image]
	_, machineKnown := p.config.MachineTypes[req.Placement.MachineType]
	at, err := p.planned(req)
	switch {
	case req.Name != provider.NameFromUID(req.UID):
		return at, permanent("name %q: want the one that belongs to UID %q", req.Name, req.UID)
	case !uidPattern.MatchString(req.UID):
		return at, permanent("UID %q: want at most 64 letters, digits and '-'", req.UID)
	case len(req.Namespace)+len(req.ProxyName)+len(req.Spec) > maxMarks:
		return at, permanent("marks: %d bytes, at most %d are allowed", len(req.Namespace)+len(req.ProxyName)+len(req.Spec), maxMarks)
	case !representable(req.Namespace), !representable(req.ProxyName), !representable(req.Spec):
		return at, permanent("marks of %q: they have characters that a domain's metadata cannot hold", req.Namespace+"/"+req.ProxyName)
	case req.Port < 1 || req.Port > 65535:
		return at, permanent("port %d: want 1 to 65535", req.Port)
	case err != nil:
		return at, permanent("%w", err)
	case !machineKnown:
		return at, permanent("placement.machineType %q: not one of %s", req.Placement.MachineType, names(p.config.MachineTypes))
	case !imageKnown:
		return at, permanent("placement.image %q: not one of %s", req.Placement.Image, names(p.config.Images))
	case len(req.CloudInit) > maxCloudInit:
		return at, permanent("cloudInit: %d bytes, at most %d are allowed", len(req.CloudInit), maxCloudInit)
	case !utf8.ValidString(req.CloudInit):
		return at, permanent("cloudInit: not valid UTF-8")
	}
	if err := p.checkOpen(req); err != nil {
		return at, permanent("%w", err).WithReason(provider.ReasonOpenProxyRefused)
	}
	return at, nil
}

// checkOpen refuses what whoever reaches the guest could use, as far as it can be told from here. Credentials count where they
// reach the guest: nothing in it can ask for a password that it was not given.
func (p *Provider) checkOpen(req provider.CreateRequest) error {
	switch {
	case len(p.config.Clients) > 0:
		return nil
	case req.Credentials == nil:
		return errors.New("spec.auth: whoever reaches the guest could use the proxy, since neither credentials nor the provider entry's clients restrict it")
	case req.Credentials.Password == "" || !strings.Contains(req.CloudInit, req.Credentials.Password):
		return errors.New("spec.auth: it has no effect, for cloudInit does not use ${PROXY_PASSWORD}; whoever reaches the guest could use the proxy")
	}
	return nil
}

// names lists the keys of a catalogue.
func names[V any](catalogue map[string]V) string {
	if len(catalogue) == 0 {
		return "those that the provider entry defines, which are none"
	}
	return strings.Join(sorted(catalogue), ", ")
}

// fullError says what a host has too little of.
type fullError struct{ what string }

func (e *fullError) Error() string { return e.what }
func (e *fullError) Unwrap() error { return provider.ErrQuotaExceeded }

// fits compares what the machine type takes, with a disk of at least atLeast bytes, with what the host has left. What an older
// instance of the same Proxy holds is counted as free: it goes before the new one comes.
func (p *Provider) fits(ctx context.Context, h *host, at place, req provider.CreateRequest, atLeast int64) error {
	machine := p.config.MachineTypes[req.Placement.MachineType]
	free, err := h.freeMemory(ctx)
	if err != nil {
		return err
	}
	pl, err := h.poolOn(ctx, h)
	if err != nil {
		return err
	}
	_, available, err := h.room(ctx, h, pl)
	if err != nil {
		return err
	}
	// Disks are thin: as many may be promised as the administrator dares. What is refused is to begin on a pool that could
	// not even hold this one.
	disk := uint64(max(machine.DiskGiB*gib, atLeast)) //nolint:gosec // bounded by the configuration
	memory := uint64(machine.MemoryMiB)               //nolint:gosec // bounded by the configuration
	if free >= memory && available >= disk {
		return nil
	}
	heldMemory, heldDisk, err := p.held(ctx, h, pl, at, req.UID)
	if err != nil {
		return err
	}
	if free+heldMemory < memory {
		return &fullError{fmt.Sprintf("too little memory is free for machineType %q, which takes %d MiB", req.Placement.MachineType, memory)}
	}
	if available+heldDisk < disk {
		return &fullError{fmt.Sprintf("pool %s has too little room for machineType %q, whose disk may take %d GiB", h.config.Pool, req.Placement.MachineType, (disk+uint64(gib)-1)>>30)}
	}
	return nil
}

// held returns what the Proxy's present instance takes: MiB of memory if it runs, bytes of its disk.
func (p *Provider) held(ctx context.Context, h *host, pl libvirt.StoragePool, at place, uid string) (memory, disk uint64, err error) {
	f, err := h.read(ctx, func(ctx context.Context) (libvirt.Domain, error) { return h.lookup(ctx, at.name) })
	if err != nil || f == nil || p.strange(h, f, uid) != nil {
		return 0, 0, err
	}
	if s := f.power.state; s == libvirt.DomainRunning || s == libvirt.DomainBlocked || s == libvirt.DomainPaused {
		kib, err := h.memoryOf(ctx, f.domain)
		if err != nil && !session.Absent(err) {
			return 0, 0, err
		}
		memory = kib >> 10
	}
	if f.record.Pool != "" && f.record.Pool != h.config.Pool {
		return memory, 0, nil // what goes there does not make room here
	}
	v, err := lookupVolume(ctx, h, pl, volumesOf(p.owner, at.host, at.name, uid, f.marks.Attempt).disk())
	if err == nil {
		var s sizes
		s, err = volumeSizes(ctx, h, v)
		disk = uint64(max(s.allocation, 0))
	}
	if err != nil && !session.Absent(err) {
		return 0, 0, err
	}
	return memory, disk, nil
}

// freeMemory returns how many MiB the host could give to a guest: what is free, and what its caches would give up.
func (h *host) freeMemory(ctx context.Context) (uint64, error) {
	stats, err := h.memory(ctx)
	if err != nil {
		return 0, err
	}
	return (stats["free"] + stats["buffers"] + stats["cached"]) >> 10, nil
}

// memory returns the host's statistics in KiB.
func (h *host) memory(ctx context.Context) (map[string]uint64, error) {
	return ask(ctx, h, "NodeGetMemoryStats", func(api session.API) (map[string]uint64, error) {
		const everyCell = -1
		_, n, err := api.NodeGetMemoryStats(0, everyCell, 0)
		if err != nil {
			return nil, err
		}
		if n < 1 || n > 64 {
			return nil, errors.New("the host has no statistics of its memory")
		}
		stats, _, err := api.NodeGetMemoryStats(n, everyCell, 0)
		out := map[string]uint64{}
		for _, s := range stats {
			out[s.Field] = s.Value
		}
		return out, err
	})
}

func (i Image) named(name string) baseimage.Image {
	return baseimage.Image{Name: name, URL: i.URL, SHA256: i.SHA256, Format: i.Format}
}

// base returns the base image on the host, or how its download stands.
func (h *host) base(ctx context.Context, name string, img Image) (baseimage.Base, error) {
	want := img.named(name)
	store, err := h.store(ctx, h)
	if err != nil {
		return baseimage.Base{}, err
	}
	base, ok, err := h.images.Find(ctx, store, want)
	if err != nil || ok {
		return base, err
	}
	return baseimage.Base{}, h.images.Prepare(lined(ctx), want)
}
