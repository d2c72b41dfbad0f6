package fleet

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Watcher collects the keys whose snapshot changed. Several changes of one key between two calls of Take are one; none
// is ever lost and a slow reader never blocks the store.
type Watcher struct {
	mu      sync.Mutex
	changed map[types.NamespacedName]struct{}
	ready   chan struct{}
}

// Watch returns a watcher that starts with every key of the store as changed.
func (s *Store) Watch() *Watcher {
	w := &Watcher{changed: map[types.NamespacedName]struct{}{}, ready: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.proxies {
		w.add(key)
	}
	s.watchers = append(s.watchers, w)
	return w
}

// Stop makes the store forget w.
func (s *Store) Stop(w *Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.watchers {
		if other == w {
			s.watchers = append(s.watchers[:i:i], s.watchers[i+1:]...)
			return
		}
	}
}

// Ready receives a value when there may be something to Take.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Take returns the keys changed since the last call, in no particular order. It does not block.
func (w *Watcher) Take() []types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]types.NamespacedName, 0, len(w.changed))
	for key := range w.changed {
		out = append(out, key)
	}
	clear(w.changed)
	return out
}

func (w *Watcher) add(key types.NamespacedName) {
	w.mu.Lock()
	w.changed[key] = struct{}{}
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (s *Store) notify(key types.NamespacedName) {
	for _, w := range s.watchers {
		w.add(key)
	}
}
