package instrument

import (
	"context"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// WithPass returns a context for a series of calls one after the other: at each guarded target they use one place, taken
// by the first of them, so that a series that has begun is not refused halfway. end gives the places back.
func WithPass(ctx context.Context) (pctx context.Context, end func()) {
	ps := &pass{places: map[place]order{}}
	return context.WithValue(ctx, passKey{}, ps), ps.end
}

// Reserve takes the place that calls about ref will use in the pass that ctx belongs to, so that what has to be written
// before a call is not written in vain. It fails as the call would, and does nothing without a pass or without a guard.
func Reserve(ctx context.Context, p provider.Provider, ref provider.Ref) error {
	g, ok := As[interface {
		reserve(ctx context.Context, ref provider.Ref) error
	}](p)
	if !ok {
		return nil
	}
	return g.reserve(ctx, ref)
}

func (g *guarded) reserve(ctx context.Context, ref provider.Ref) error {
	if ctx.Value(passKey{}) == nil {
		return nil
	}
	_, _, _, err := g.enter(ctx, "create", ref.ID, g.targetOf(ref))
	return err
}

type passKey struct{}

type place struct {
	guard  *guarded
	target string
}

type pass struct {
	mu     sync.Mutex
	places map[place]order // with when they were taken
}

// holds reports whether the pass has a place at the target, and since when.
func (p *pass) holds(g *guarded, target string) (since order, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, ok = p.places[place{g, target}]
	return since, ok
}

// holdsAny reports whether the pass has a place at any target of g.
func (p *pass) holdsAny(g *guarded) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.places {
		if at.guard == g {
			return true
		}
	}
	return false
}

func (p *pass) keep(g *guarded, target string, since order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[place{g, target}] = since
}

func (p *pass) end() {
	p.mu.Lock()
	places := p.places
	p.places = map[place]order{}
	p.mu.Unlock() // the guard's lock is taken before this one elsewhere
	for at := range places {
		at.guard.leave(at.target)
	}
}
