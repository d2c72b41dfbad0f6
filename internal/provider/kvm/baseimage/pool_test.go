package baseimage_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

const ready = ".ready"

// pool is a host's storage pool in memory. It outlives processes, and watches over what must never happen.
type pool struct {
	t *testing.T

	mu      sync.Mutex
	volumes map[string]*volume
	calls   []string // "create", "upload" and so on, with markers as "create marker"
	open    int

	// before runs before each call without the lock; its error is the call's. after does so once the call has had its effect.
	before, after func(ctx context.Context, call, name string) error
}

type volume struct {
	data                 []byte
	capacity, allocation int64
}

func newPool(t *testing.T) *pool { return &pool{t: t, volumes: map[string]*volume{}} }

func (p *pool) connect(ctx context.Context) (baseimage.Store, io.Closer, error) {
	if err := p.hook(ctx, p.before, "open", ""); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	return p, closer(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
	}), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

func (p *pool) hook(ctx context.Context, f func(context.Context, string, string) error, call, name string) error {
	if strings.HasSuffix(name, ready) {
		call += " marker"
	}
	if f == nil {
		return nil
	}
	return f(ctx, call, name)
}

func (p *pool) around(ctx context.Context, call, name string, do func() error) error {
	if err := p.hook(ctx, p.before, call, name); err != nil {
		return err
	}
	p.mu.Lock()
	kind := call
	if strings.HasSuffix(name, ready) {
		kind += " marker"
	}
	p.calls = append(p.calls, kind)
	err := do()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.hook(ctx, p.after, call, name)
}

func (p *pool) Volumes(ctx context.Context, sized func(string) bool) (out []baseimage.Volume, err error) {
	err = p.around(ctx, "volumes", "", func() error {
		for name, v := range p.volumes {
			one := baseimage.Volume{Name: name}
			if sized(name) {
				one.Capacity = v.capacity
			}
			out = append(out, one)
		}
		return nil
	})
	return out, err
}

func (p *pool) Create(ctx context.Context, name string, capacity, allocation int64) error {
	return p.around(ctx, "create", name, func() error {
		if p.volumes[name] != nil {
			return fmt.Errorf("volume %s exists", name)
		}
		p.volumes[name] = &volume{capacity: capacity, allocation: allocation}
		return nil
	})
}

func (p *pool) Upload(ctx context.Context, name string, r io.Reader, length int64) error {
	if err := p.around(ctx, "upload", name, func() error { return nil }); err != nil {
		return err
	}
	buf := make([]byte, 8<<10)
	for done := int64(0); done < length; {
		if err := p.hook(ctx, p.before, "write", name); err != nil {
			return err
		}
		n, err := r.Read(buf)
		p.mu.Lock()
		switch v := p.volumes[name]; {
		case p.volumes[name+ready] != nil:
			p.t.Errorf("published volume %s is written", name)
		case v != nil: // a file that was removed takes what is written
			v.data = append(v.data, buf[:n]...)
		}
		p.mu.Unlock()
		done += int64(n)
		if err != nil {
			return fmt.Errorf("stream of %s ended", name) // as libvirt does, it hides why
		}
	}
	return p.hook(ctx, p.after, "upload", name)
}

func (p *pool) Delete(ctx context.Context, name string) error {
	return p.around(ctx, "delete", name, func() error {
		if p.volumes[name+ready] != nil {
			p.t.Errorf("published volume %s is removed", name)
		}
		if strings.HasSuffix(name, ready) {
			p.t.Errorf("marker %s is removed", name)
		}
		delete(p.volumes, name)
		return nil
	})
}

func (p *pool) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.volumes))
}

// put makes a volume as another process would.
func (p *pool) put(name string, capacity int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[name] = &volume{capacity: capacity}
}

// vanish takes volumes away as a person would.
func (p *pool) vanish(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		delete(p.volumes, name)
	}
}

func (p *pool) count(call string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c == call {
			n++
		}
	}
	return n
}

// after a crash: what is in the pool, and nobody who is connected.
func (p *pool) survivor() *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := newPool(p.t)
	for name, v := range p.volumes {
		c := *v
		c.data = slices.Clone(v.data)
		q.volumes[name] = &c
	}
	return q
}
