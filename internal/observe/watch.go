package observe

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// told is a change that came later than the last list.
type told struct {
	provider.Change
	at time.Time
}

// watches are the watches that run, by provider name.
type watches struct {
	all     sync.WaitGroup
	running map[string]*watching
}

// watching is one watch.
type watching struct {
	of   provider.Provider
	mu   sync.Mutex // held while something told is taken in
	stop context.CancelFunc
}

// end ends the watch. What it tells later is not heard: the one that takes its place may have told better meanwhile.
func (w *watching) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}

// follow watches the providers that can be watched, and ends the watches of those that have been taken away or rebuilt. It
// returns the names of those that are new or rebuilt.
func (o *Observer) follow(ctx context.Context, w *watches, handles []registry.Handle) (fresh map[string]struct{}) {
	now := make(map[string]registry.Handle, len(handles))
	for _, h := range handles {
		now[h.Name] = h
	}
	for name, r := range w.running {
		if now[name].Provider != r.of {
			r.end()
			delete(w.running, name)
		}
	}
	fresh = o.adopt(handles)
	for name, h := range now {
		watcher, can := instrument.As[provider.Watcher](h.Provider)
		if _, runs := w.running[name]; runs || !can {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		r := &watching{of: h.Provider, stop: stop}
		w.running[name] = r
		w.all.Go(func() {
			watcher.Watch(ctx, func(c provider.Change) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if ctx.Err() == nil {
					o.hear(name, c)
				}
			})
		})
	}
	o.forget()
	return fresh
}

// adopt makes handles those whose lists count, and forgets what was seen of entries that have gone. What a rebuilt entry has
// shown holds until it is listed again: its instances in use are the same.
func (o *Observer) adopt(handles []registry.Handle) (fresh map[string]struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.current
	o.current, fresh = make(map[string]provider.Provider, len(handles)), map[string]struct{}{}
	for _, h := range handles {
		o.current[h.Name] = h.Provider
		if before[h.Name] != h.Provider {
			fresh[h.Name] = struct{}{}
		}
	}
	for name := range before {
		if o.current[name] == nil {
			delete(o.seen, name)
			delete(o.told, name)
			o.o.Metrics.ProviderGone(name)
		}
	}
	return fresh
}

// hear takes in what a provider told: an address where its instance no longer serves is withdrawn at once, and whoever is
// concerned gets a pass.
func (o *Observer) hear(name string, c provider.Change) {
	inst := &c.Instance
	o.remember(name, c)
	key := types.NamespacedName{Namespace: inst.Marks.Namespace, Name: inst.Marks.Name}
	p := o.o.Store.Get(key)
	if p == nil || p.UID != inst.Marks.UID || p.Provider != name || p.Attempt == 0 {
		return
	}
	switch {
	case p.ProviderID != inst.ID, inst.Marks.Attempt < p.Attempt:
		// The next list sees to strays. What becomes of one is of interest only to whoever waits for it to be gone.
		if c.Gone {
			o.o.Wake(key)
		}
	case inst.Marks.Attempt > p.Attempt:
		o.o.Wake(key)
	default:
		// One that is held as Unknown may serve or not, wherever it was before.
		if p.Endpoint.Host != "" && (c.Gone || inst.State != provider.StateUnknown) {
			o.o.Store.SetGone(key, p.Instance(), c.Gone || left(p, inst))
		}
		if c.Gone || differs(p, *inst) {
			o.o.Wake(key)
		}
	}
}

// left reports whether the recorded instance no longer serves at the recorded address.
func left(p *fleet.Proxy, inst *provider.Instance) bool {
	return inst.State != provider.StateRunning || inst.IP != p.Endpoint.Host || inst.Port != p.Endpoint.Port
}

// remember keeps a change until the next list, which is asked for at every interval.
func (o *Observer) remember(name string, c provider.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// At the start everything is told, most of it as it was listed: not worth the memory.
	for _, listed := range o.seen[name].byUID[c.Instance.Marks.UID] {
		if listed.ID == c.Instance.ID && !c.Gone && alike(&listed, &c.Instance) {
			delete(o.told[name], c.Instance.ID)
			return
		}
	}
	if o.told[name] == nil {
		o.told[name] = map[string]told{}
	}
	o.told[name][c.Instance.ID] = told{c, o.o.Clock.Now()}
}

// alike reports whether two sights of an instance say the same of what the status records.
func alike(a, b *provider.Instance) bool {
	return a.State == b.State && a.IP == b.IP && a.Port == b.Port && a.ExitAddress == b.ExitAddress && a.Marks == b.Marks &&
		a.Identity == b.Identity
}

// outdate forgets what was told before a list was asked for. o.mu is held.
func (o *Observer) outdate(name string, asked time.Time) {
	maps.DeleteFunc(o.told[name], func(_ string, t told) bool { return t.at.Before(asked) })
}

// forget bounds what is kept where lists fail: what is older than the oldest list that counts is not looked at again.
func (o *Observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.told {
		o.outdate(name, o.o.Clock.Now().Add(-2*o.o.Interval))
	}
}
