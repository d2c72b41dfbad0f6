package kvm

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// pool is a storage pool of whose volumes are files.
type pool struct {
	libvirt.StoragePool
	folder string
}

func (h *host) pool(ctx context.Context) (pool, error) {
	p, err := h.poolOn(ctx, h)
	if err != nil {
		return pool{}, err
	}
	text, err := ask(ctx, h, "StoragePoolGetXMLDesc", func(api session.API) (string, error) { return api.StoragePoolGetXMLDesc(p, 0) })
	if err != nil {
		return pool{}, err
	}
	var desc libvirtxml.StoragePool
	if err := desc.Unmarshal(text); err != nil {
		return pool{}, fmt.Errorf("reading pool %s: %w", h.config.Pool, err)
	}
	switch desc.Type {
	case "dir", "fs", "netfs":
	default:
		return pool{}, &poolError{pool: h.config.Pool, what: "is of type " + desc.Type + ": want dir, fs or netfs"}
	}
	if desc.Target == nil || desc.Target.Path == "" {
		return pool{}, &poolError{pool: h.config.Pool, what: "has no path"}
	}
	return pool{p, desc.Target.Path}, nil
}

// poolError says that a pool is not fit for volumes of ours.
type poolError struct {
	pool, what string
	// passing: somebody may start the pool at any time.
	passing bool
}

func (e *poolError) Error() string { return "pool " + e.pool + " " + e.what }

func (h *host) poolOn(ctx context.Context, c caller) (libvirt.StoragePool, error) {
	return poolNamed(ctx, c, h.config.Pool)
}

func poolNamed(ctx context.Context, c caller, name string) (libvirt.StoragePool, error) {
	return ask(ctx, c, "StoragePoolLookupByName", func(api session.API) (libvirt.StoragePool, error) {
		return api.StoragePoolLookupByName(name)
	})
}

// room returns how many bytes a pool has left. One that is not running has none.
func (h *host) room(ctx context.Context, c caller, p libvirt.StoragePool) (capacity, available uint64, err error) {
	type info struct {
		state               uint8
		capacity, available uint64
	}
	i, err := ask(ctx, c, "StoragePoolGetInfo", func(api session.API) (info, error) {
		state, capacity, _, available, err := api.StoragePoolGetInfo(p)
		return info{state, capacity, available}, err
	})
	if err == nil && libvirt.StoragePoolState(i.state) != libvirt.StoragePoolRunning {
		err = &poolError{pool: h.config.Pool, what: "is not running", passing: true}
	}
	return i.capacity, i.available, err
}

// fullBelow is what a pool has left at most, in bytes, when a call that failed on it may have failed for that, whatever it
// needed itself: others take room meanwhile.
const fullBelow = uint64(64 << 20)

// explainFull explains an error of something that was to take need bytes: libvirt has no code for a pool that is full.
func (h *host) explainFull(ctx context.Context, c caller, p libvirt.StoragePool, need int64, err error) error {
	if !answered(err) {
		return err
	}
	capacity, available, e := h.room(ctx, c, p)
	if e == nil && available < max(uint64(max(need, 0)), min(capacity/100, fullBelow)) {
		return fmt.Errorf("%w: %w", &fullError{"pool " + h.config.Pool + " is full"}, err)
	}
	return err
}

// volumeNames lists a pool.
func volumeNames(ctx context.Context, c caller, p libvirt.StoragePool) ([]string, error) {
	return ask(ctx, c, "StoragePoolListAllVolumes", func(api session.API) ([]string, error) {
		all, _, err := api.StoragePoolListAllVolumes(p, 1, 0)
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return names, err
	})
}

func lookupVolume(ctx context.Context, c caller, p libvirt.StoragePool, name string) (libvirt.StorageVol, error) {
	return ask(ctx, c, "StorageVolLookupByName", func(api session.API) (libvirt.StorageVol, error) {
		return api.StorageVolLookupByName(p, name)
	})
}

// sizes are a volume's in bytes.
type sizes struct{ capacity, allocation int64 }

func volumeSizes(ctx context.Context, c caller, v libvirt.StorageVol) (sizes, error) {
	return ask(ctx, c, "StorageVolGetInfo", func(api session.API) (sizes, error) {
		_, capacity, allocation, err := api.StorageVolGetInfo(v)
		return sizes{int64(min(capacity, 1<<62)), int64(min(allocation, 1<<62))}, err
	})
}

func (h *host) describeVolume(ctx context.Context, v libvirt.StorageVol) (*libvirtxml.StorageVolume, error) {
	text, err := ask(ctx, h, "StorageVolGetXMLDesc", func(api session.API) (string, error) { return api.StorageVolGetXMLDesc(v, 0) })
	if err != nil {
		return nil, err
	}
	desc := &libvirtxml.StorageVolume{}
	if err := desc.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("reading volume %s: %w", v.Name, err)
	}
	return desc, nil
}

func createVolume(ctx context.Context, c caller, p libvirt.StoragePool, xml string) (libvirt.StorageVol, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, &noAnswerError{call: "StorageVolCreateXML"})
	defer cancel()
	return createLarge(ctx, c, p, xml)
}

// createLarge is createVolume for as long as ctx allows: where a file system cannot reserve room, all of it is written.
func createLarge(ctx context.Context, c caller, p libvirt.StoragePool, xml string) (libvirt.StorageVol, error) {
	return unlimited(ctx, c, "StorageVolCreateXML", func(api session.API) (libvirt.StorageVol, error) { return api.StorageVolCreateXML(p, xml, 0) })
}

// upload writes a volume from its beginning. It reads nothing once it has returned, whatever the call still does.
func upload(ctx context.Context, c caller, v libvirt.StorageVol, from io.Reader, length int64) error {
	g := &gate{r: from}
	defer g.shut()
	_, err := unlimited(ctx, c, "StorageVolUpload", func(api session.API) (struct{}, error) {
		return struct{}{}, api.StorageVolUpload(v, g, 0, uint64(length), 0) //nolint:gosec // never negative
	})
	return err
}

// gate is a reader that can be taken away from whoever reads.
type gate struct {
	mu  sync.Mutex
	r   io.Reader
	off bool
}

func (g *gate) Read(buf []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.off {
		return 0, context.Canceled
	}
	return g.r.Read(buf)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.off = true
}

// removeVolume is fine with a volume that is not there.
func removeVolume(ctx context.Context, c caller, p libvirt.StoragePool, name string) error {
	v, err := lookupVolume(ctx, c, p, name)
	if session.Absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = tell(ctx, c, "StorageVolDelete", func(api session.API) error { return api.StorageVolDelete(v, 0) })
	if session.Absent(err) {
		return nil
	}
	return err
}
