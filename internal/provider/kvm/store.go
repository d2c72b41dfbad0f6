package kvm

import (
	"context"
	"io"
	"net/http"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// basePrefix begins the names of base images and of what belongs to them.
const basePrefix = "epx-base-"

// newCache returns the base images of a host. A download has a connection of its own: it takes long, and what ends it must
// not end anything else.
func newCache(h *host, clk session.Clock, client *http.Client, slots chan struct{}) *baseimage.Cache {
	return baseimage.New(baseimage.Options{
		Host: h.config.Name, Prefix: basePrefix, Clock: clk, HTTPClient: client, Slots: slots,
		Open: func(ctx context.Context) (baseimage.Store, io.Closer, error) {
			link, err := h.shared.host.Open(ctx)
			if err != nil {
				return nil, nil, judged(err)
			}
			store, err := h.store(ctx, own{link})
			if err != nil {
				_ = link.Close()
				return nil, nil, judged(err)
			}
			return store, link, nil
		},
	})
}

// judged gives an error the class that it has for this provider, which the package below does not know.
func judged(err error) error {
	if err == nil {
		return nil
	}
	_, class := classify(err)
	return &classified{said(err), class}
}

type classified struct {
	error
	class error
}

func (c *classified) Unwrap() []error { return []error{c.class, c.error} }

// store is a host's pool as the base images use it.
type store struct {
	caller
	host *host
	pool libvirt.StoragePool
}

func (h *host) store(ctx context.Context, c caller) (*store, error) {
	pl, err := h.poolOn(ctx, c)
	if err != nil {
		return nil, err
	}
	return &store{c, h, pl}, nil
}

// Volumes lists the pool.
func (s *store) Volumes(ctx context.Context, sized func(string) bool) ([]baseimage.Volume, error) {
	names, err := volumeNames(ctx, s, s.pool)
	if err != nil {
		return nil, judged(err)
	}
	out := make([]baseimage.Volume, 0, len(names))
	for _, name := range names {
		v := baseimage.Volume{Name: name}
		if sized(name) {
			size, err := s.size(ctx, name)
			if session.Absent(err) {
				continue // it has gone meanwhile
			}
			if err != nil {
				return nil, judged(err)
			}
			v.Capacity = size
		}
		out = append(out, v)
	}
	return out, nil
}

func (s *store) size(ctx context.Context, name string) (int64, error) {
	v, err := lookupVolume(ctx, s, s.pool, name)
	if err != nil {
		return 0, err
	}
	size, err := volumeSizes(ctx, s, v)
	return size.capacity, err
}

// Create makes a raw volume.
func (s *store) Create(ctx context.Context, name string, capacity, allocation int64) error {
	xml, err := rawXML(name, capacity, allocation)
	if err != nil {
		return err
	}
	_, err = createLarge(ctx, s, s.pool, xml)
	return judged(s.explain(ctx, allocation, err))
}

// Upload writes a volume.
func (s *store) Upload(ctx context.Context, name string, r io.Reader, length int64) error {
	v, err := lookupVolume(ctx, s, s.pool, name)
	if err != nil {
		return judged(err)
	}
	return judged(s.explain(ctx, length, upload(ctx, s, v, r, length)))
}

// Delete removes a volume.
func (s *store) Delete(ctx context.Context, name string) error {
	return judged(removeVolume(ctx, s, s.pool, name))
}

// explain finds out whether a failure is one of room, by the bytes that were needed.
func (s *store) explain(ctx context.Context, need int64, err error) error {
	return s.host.explainFull(ctx, s, s.pool, need, err)
}
