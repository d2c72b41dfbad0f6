package registry

import (
	"context"
	"maps"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

const (
	// patience is for how many call timeouts a provider that was taken out is kept open for a pass that does not end. A pass
	// makes a few calls, each of which takes one at most.
	patience = 10
	// maxGone bounds how many of the entries that were taken out are remembered.
	maxGone = 256
)

// gone is an entry that was taken out. It may be closed: it is asked for nothing but where its instances are.
type gone struct {
	was  provider.Provider
	held *instrument.Retirement
}

// remove takes an entry out. Its Proxies are nobody's from now on; passes that have begun end on it.
func (r *Registry) remove(ctx context.Context, old Handle) {
	r.mu.Lock()
	set := maps.Clone(*r.handles.Load())
	delete(set, old.Name)
	r.handles.Store(&set)
	r.mu.Unlock()
	for name := range r.gone {
		if len(r.gone) < maxGone {
			break
		}
		delete(r.gone, name)
	}
	held := instrument.Retire(old.Provider)
	r.gone[old.Name] = gone{old.raw, held}
	r.retire(ctx, old, held)
	r.background(func() { r.tell(old.Name, held) })
}

// tell waits for the last word of an entry that was taken out, which what is left of it must not outlive.
func (r *Registry) tell(name string, held *instrument.Retirement) {
	select {
	case <-held.Drained():
	case <-r.stop:
		return
	}
	r.mu.Lock() // so that the entry does not come back in between
	defer r.mu.Unlock()
	if _, back := r.Lookup(name); !back && r.opts.Gone != nil {
		r.opts.Gone(name)
	}
}

// retire closes a provider in the background once nobody uses it.
func (r *Registry) retire(ctx context.Context, old Handle, held *instrument.Retirement) {
	late := r.opts.Timers.NewTimer(patience * r.opts.Window.CallTimeout)
	r.background(func() {
		defer late.Stop()
		select {
		case <-held.Drained():
		case <-late.C():
		case <-r.stop:
		}
		r.discard(ctx, old)
	})
}

// background runs f beside, or at once where the registry has been closed.
func (r *Registry) background(f func()) {
	r.mu.Lock()
	if !r.closed {
		r.retiring.Go(f)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	f()
}

// discard closes what is not in force.
func (r *Registry) discard(ctx context.Context, h Handle) {
	if err := closeProvider(h.raw); err != nil {
		logr.FromContextOrDiscard(ctx).Info("a provider that is no longer in use did not close well",
			"provider", h.Name, "type", h.Type, "error", message.Clean(err.Error()))
	}
}
