package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// maxExchanges bounds the entries that are exchanged side by side: each asks the API server for its Proxies.
const maxExchanges = 8

// Reload makes entries the ones in force. What has the same revision is not touched: neither its provider nor its Handle.
//
// Where any entry cannot be built, nothing changes (Result.Err). An entry is refused alone, and stays as it was, when
// instances in use would no longer be in its scope or are looked for elsewhere, when that cannot be told, or when calls in
// flight do not end; everything else takes effect. Removed entries are taken out whatever is in use.
//
// Calls in flight end on the provider they began on, which is closed in the background after the last of them. Reload blocks
// while it asks what is in use and while calls on changed entries end, at most about 2 call timeouts and two times what inUse
// takes, for each 8 changed entries. One runs at a time. ctx ending refuses what is not done yet; it may carry a logger.
func (r *Registry) Reload(ctx context.Context, entries []Entry, inUse InUse) Result {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	now := *r.handles.Load()
	fresh := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return now[e.Name].Revision == revision(r.opts.Owner, e) })
	built, err := r.buildAll(ctx, fresh)
	if err != nil {
		for _, h := range built {
			r.discard(ctx, h)
		}
		return Result{Err: err}
	}
	var out Result
	keep := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		keep[e.Name] = struct{}{}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, stays := keep[name]; !stays {
			r.remove(ctx, now[name])
			out.Removed = append(out.Removed, name)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, maxExchanges)
	for name, next := range built {
		old, had := now[name]
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var refused *Refusal
			if had {
				refused = r.exchange(ctx, old, next, inUse)
			} else {
				refused = r.add(ctx, next, inUse)
			}
			if refused != nil {
				r.discard(ctx, next)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case refused != nil:
				out.Refused = append(out.Refused, *refused)
			case had:
				out.Changed = append(out.Changed, name)
			default:
				out.Added = append(out.Added, name)
			}
		})
	}
	all.Wait()
	slices.Sort(out.Added)
	slices.Sort(out.Changed)
	slices.SortFunc(out.Refused, func(a, b Refusal) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range out.Added {
		delete(r.gone, name)
	}
	return out
}

// add puts an entry in that was not there. Proxies may have been waiting for it, and may have instances from when it was there
// before.
func (r *Registry) add(ctx context.Context, next Handle, inUse InUse) *Refusal {
	before, was := r.gone[next.Name]
	if was {
		// A pass that began on it may still put something on record.
		if refused := r.drained(ctx, next.Name, before.held); refused != nil {
			return refused
		}
	}
	if refused := r.disowns(ctx, before.was, next, inUse); refused != nil {
		return refused
	}
	return r.put(next)
}

// exchange puts next in the place of old. In between nobody can put on record an instance that next would disown: the guard
// lets no pass begin, and those that had begun have ended, when it is asked for the second time what is in use.
func (r *Registry) exchange(ctx context.Context, old, next Handle, inUse InUse) *Refusal {
	if refused := r.disowns(ctx, old.raw, next, inUse); refused != nil {
		return refused // before anybody is held up
	}
	held := instrument.Retire(old.Provider)
	refused := r.drained(ctx, old.Name, held)
	if refused == nil {
		refused = r.disowns(ctx, old.raw, next, inUse)
	}
	if refused == nil {
		refused = r.put(next)
	}
	if refused != nil {
		held.Resume()
		return refused
	}
	r.retire(ctx, old, held)
	return nil
}

// drained waits until no call on the old provider is in flight and no pass may begin one.
func (r *Registry) drained(ctx context.Context, name string, held *instrument.Retirement) *Refusal {
	late := r.opts.Timers.NewTimer(2 * r.opts.Window.CallTimeout)
	defer late.Stop()
	select {
	case <-held.Drained():
		return nil
	case <-late.C():
	case <-ctx.Done():
	}
	return refuse(name, Busy, "calls on the configuration before have not ended; it stays in force, and the change is tried again")
}

// put makes h the one in force.
func (r *Registry) put(h Handle) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return refuse(h.Name, Busy, "the operator is stopping")
	}
	set := maps.Clone(*r.handles.Load())
	set[h.Name] = h
	r.handles.Store(&set)
	return nil
}
