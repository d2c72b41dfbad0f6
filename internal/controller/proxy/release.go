package proxy

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// releaseSpread is over how long a release is spread at least, and releaseGap how far apart two Proxies of a small
	// fleet are at most.
	releaseSpread, releaseGap = 12 * time.Second, time.Second
	// releaseRate bounds the Proxies that are woken in a second, of all providers together.
	releaseRate = 90
	releaseTick = 100 * time.Millisecond
)

// ReleaserOptions are what a Releaser needs; all but Random are required.
type ReleaserOptions struct {
	Store *fleet.Store
	Clock clock.WithTicker
	// Wake asks for a pass over a Proxy. It must not block.
	Wake func(types.NamespacedName)
	// Random returns numbers in [0,1) that spread the wakes; rand.Float64 when nil.
	Random func() float64
}

// Releaser wakes the Managed Proxies of a provider entry once what held them is over: its gate has opened, or it was added or
// changed. Those that wait come first. It is spread over at least 10 s for a dozen or more, and at most 100 a second are
// woken, so that they do not all rush at the backend.
type Releaser struct {
	o ReleaserOptions

	mu     sync.Mutex
	asked  map[string]struct{}
	signal chan struct{}
}

// NewReleaser returns a releaser that collects what it is asked for until it is started.
func NewReleaser(o ReleaserOptions) *Releaser {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Releaser{o: o, asked: map[string]struct{}{}, signal: make(chan struct{}, 1)}
}

// NeedLeaderElection lets only the leader release, as only the leader reconciles.
func (r *Releaser) NeedLeaderElection() bool { return true }

// Release asks for every Managed Proxy of the entry to be woken at some time from now on. It does not block. A Proxy that an
// earlier release has not woken yet keeps its turn, and one that was woken gets another.
func (r *Releaser) Release(providerName string) {
	r.mu.Lock()
	r.asked[providerName] = struct{}{}
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default: // it will look anyway
	}
}

// Start wakes whoever is to be released. It blocks until ctx ends.
func (r *Releaser) Start(ctx context.Context) error {
	turns := map[types.NamespacedName]time.Time{}
	var tick clock.Ticker
	var due <-chan time.Time // nil while nobody waits for a turn
	stop := func() {
		if tick != nil {
			tick.Stop()
			tick, due = nil, nil
		}
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.signal:
			for _, name := range r.take() {
				r.schedule(turns, name)
			}
		case <-due:
			r.wake(turns)
		}
		switch {
		case len(turns) == 0:
			stop()
		case tick == nil:
			tick = r.o.Clock.NewTicker(releaseTick)
			due = tick.C()
		}
	}
}

// take returns the entries that were asked for since the last time.
func (r *Releaser) take() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.asked {
		names = append(names, name)
	}
	clear(r.asked)
	return names
}

// schedule gives a turn to every Proxy of the entry that has none.
func (r *Releaser) schedule(turns map[types.NamespacedName]time.Time, name string) {
	type candidate struct {
		key   types.NamespacedName
		waits bool
		lot   float64
	}
	var all []candidate
	for _, p := range r.o.Store.OfProvider(name) {
		if _, has := turns[p.Key]; p.Mode != v1alpha1.ModeManaged || has {
			continue
		}
		all = append(all, candidate{p.Key, p.Deleting || !p.Provisioned, r.o.Random()})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.waits != b.waits {
			if a.waits {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.lot, b.lot)
	})
	if len(all) == 0 {
		return
	}
	gap := max(min(releaseSpread/time.Duration(len(all)), releaseGap), time.Second/releaseRate)
	now := r.o.Clock.Now()
	for i, c := range all {
		turns[c.key] = now.Add(time.Duration((float64(i) + r.o.Random()) * float64(gap)))
	}
}

// wake wakes those whose turn it is, the longest due first, as many as one tick may.
func (r *Releaser) wake(turns map[types.NamespacedName]time.Time) {
	now := r.o.Clock.Now()
	var due []types.NamespacedName
	for key, at := range turns {
		if !at.After(now) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b types.NamespacedName) int { return turns[a].Compare(turns[b]) })
	const most = int(releaseTick * 100 / time.Second)
	for _, key := range due[:min(len(due), most)] {
		delete(turns, key)
		r.o.Wake(key)
	}
}
