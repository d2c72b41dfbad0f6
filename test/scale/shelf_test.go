package scale

import (
	"maps"
	"math"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// shelf follows what is on offer, at every change of the read model.
type shelf struct {
	mu      sync.Mutex
	offered map[types.NamespacedName]bool
	least   int
	left    map[fleet.Withheld]int // how often Proxies left it, by reason
	see     func(*fleet.Proxy)     // nil for nobody
}

// shelf starts with what is on offer now. see, where given, is shown every snapshot that has changed, one at a time.
func (w *world) shelf(see func(*fleet.Proxy)) *shelf {
	s := &shelf{left: map[fleet.Withheld]int{}, least: math.MaxInt, see: see}
	s.follow(w)
	return s
}

// follow goes on with what is on offer now, until the operator's process ends.
func (s *shelf) follow(w *world) {
	ctx, store, changes := w.up, w.store, w.store.Watch()
	s.offered = map[types.NamespacedName]bool{}
	for _, p := range store.OfProvider(entry) {
		if p.Withheld() == fleet.WithheldNot {
			s.offered[p.Key] = true
		}
	}
	s.least = min(s.least, len(s.offered))
	w.running.Go(func() {
		defer store.Stop(changes)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changes.Ready():
			}
			for _, key := range changes.Take() {
				if p := store.Get(key); p != nil {
					s.put(p)
				}
			}
		}
	})
}

func (s *shelf) put(p *fleet.Proxy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch why := p.Withheld(); {
	case why == fleet.WithheldNot:
		s.offered[p.Key] = true
	case s.offered[p.Key]:
		delete(s.offered, p.Key)
		s.left[why]++
	}
	s.least = min(s.least, len(s.offered))
	if s.see != nil {
		s.see(p)
	}
}

// fewest returns how many were on offer at least, and how often which reasons took Proxies off it.
func (s *shelf) fewest() (least int, left map[fleet.Withheld]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.least, maps.Clone(s.left)
}
