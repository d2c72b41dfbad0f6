package fleet

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/types"
)

// Store holds the snapshots. All methods are safe for concurrent use and block only on the store's own lock.
type Store struct {
	mu       sync.RWMutex
	proxies  map[types.NamespacedName]*Proxy
	sorted   *btree.BTreeG[types.NamespacedName] // the keys of proxies, by namespace and name
	byAttr   map[attribute]map[types.NamespacedName]struct{}
	byAddr   map[Endpoint]map[types.NamespacedName]struct{}
	counts   map[string]Count
	watchers []*Watcher
}

// degree of the tree of keys: nodes of a few cache lines.
const degree = 32

type attribute struct{ key, value string }

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		proxies: map[types.NamespacedName]*Proxy{},
		sorted:  btree.NewG(degree, func(a, b types.NamespacedName) bool { return compareKeys(a, b) < 0 }),
		byAttr:  map[attribute]map[types.NamespacedName]struct{}{},
		byAddr:  map[Endpoint]map[types.NamespacedName]struct{}{},
		counts:  map[string]Count{},
	}
}

// Count is how many Proxies of one provider have an instance on record, and how many of those are being replaced.
type Count struct{ Recorded, Replacing int }

func (c *Count) add(p *Proxy, n int) {
	if p.Attempt > 0 {
		c.Recorded += n
	}
	if p.Replacing {
		c.Replacing += n
	}
}

// Count returns the counts of one provider. It costs the same however large the fleet.
func (s *Store) Count(providerName string) Count {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.counts[providerName]
}

// Replacing reports whether the Proxy under key is being replaced.
func (s *Store) Replacing(key types.NamespacedName) bool {
	p := s.Get(key)
	return p != nil && p.Replacing
}

// count keeps the counts right when next takes old's place; either may be nil. s.mu is held.
func (s *Store) count(old, next *Proxy) {
	for p, n := range map[*Proxy]int{old: -1, next: 1} {
		if p == nil || p.Provider == "" {
			continue
		}
		c := s.counts[p.Provider]
		c.add(p, n)
		s.counts[p.Provider] = c
		if c == (Count{}) {
			delete(s.counts, p.Provider)
		}
	}
}

// Apply puts next in the place of the snapshot under its key. The verdict of the old one is kept only when it speaks of
// the same subject; next itself must not be used by the caller afterwards.
func (s *Store) Apply(next *Proxy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.proxies[next.Key]
	if old != nil {
		next.rotate(old)
		next.Gone = old.Gone && next.Instance() == old.Instance()
	}
	next.Verdict = Verdict{Subject: next.Subject()}
	if old != nil && old.Verdict.Subject == next.Subject() {
		next.Verdict = old.Verdict
	}
	if old != nil && old.UID == next.UID && !next.ObservedAt.After(old.ObservedAt) {
		next.ObservedAt = old.ObservedAt
		if next.claims() && next.Endpoint != old.Endpoint {
			next.ObservedAt = s.latestClaim(next)
		}
	}
	s.put(old, next)
}

// Remove forgets the snapshot under key, provided that it is of uid: a late deletion must not remove a successor of
// the same name.
func (s *Store) Remove(key types.NamespacedName, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.proxies[key]; old != nil && old.UID == uid {
		s.put(old, nil)
	}
}

// SetVerdict records v for key. It returns false and changes nothing when v speaks of another subject than the
// current one.
func (s *Store) SetVerdict(key types.NamespacedName, v Verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.proxies[key]
	if old == nil || old.Subject() != v.Subject {
		return false
	}
	if old.Verdict == v {
		return true
	}
	next := *old
	next.Verdict = v
	s.put(old, &next)
	return true
}

// put swaps old for next (either may be nil), keeps the indices right and tells the watchers. s.mu is held.
func (s *Store) put(old, next *Proxy) {
	s.count(old, next)
	reindex := old == nil || next == nil || !sameAttributes(old.Attributes, next.Attributes)
	if old != nil {
		if reindex {
			for k, v := range old.Attributes {
				drop(s.byAttr, attribute{k, v}, old.Key)
			}
		}
		drop(s.byAddr, old.Endpoint, old.Key)
	}
	if next == nil {
		delete(s.proxies, old.Key)
		s.sorted.Delete(old.Key)
	} else {
		s.proxies[next.Key] = next
		if old == nil {
			s.sorted.ReplaceOrInsert(next.Key)
		}
		if reindex {
			for k, v := range next.Attributes {
				add(s.byAttr, attribute{k, v}, next.Key)
			}
		}
		if next.claims() {
			add(s.byAddr, next.Endpoint, next.Key)
		}
	}
	s.notify(keyOf(old, next))
	if old != nil && (next == nil || old.Endpoint != next.Endpoint) {
		s.settleClaims(old.Endpoint)
	}
	if next != nil {
		s.settleClaims(next.Endpoint)
	}
}

// Get returns the snapshot under key, nil when there is none.
func (s *Store) Get(key types.NamespacedName) *Proxy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.proxies[key]
}

// Len returns how many snapshots there are.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.proxies)
}

// Select returns, in no particular order, the snapshots of namespace (all when empty) that match selector. It walks
// the smallest of the selector's index entries, or everything when the selector is empty.
func (s *Store) Select(namespace string, selector map[string]string) []*Proxy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*Proxy
	for p := range s.candidates(selector) {
		if (namespace == "" || p.Key.Namespace == namespace) && p.Matches(selector) {
			out = append(out, p)
		}
	}
	return out
}

// Fewest returns how many snapshots Select looks at for selector, without regard to a namespace.
func (s *Store) Fewest(selector map[string]string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if smallest, ok := s.smallest(selector); ok {
		return len(smallest)
	}
	return len(s.proxies)
}

// OfProvider returns the snapshots of one provider, in no particular order.
func (s *Store) OfProvider(name string) []*Proxy {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*Proxy
	for _, p := range s.proxies {
		if p.Provider == name {
			out = append(out, p)
		}
	}
	return out
}

// List returns what Select does, sorted by namespace and name.
func (s *Store) List(namespace string, selector map[string]string) []*Proxy {
	out := s.Select(namespace, selector)
	slices.SortFunc(out, func(a, b *Proxy) int { return compareKeys(a.Key, b.Key) })
	return out
}

// Page returns, sorted by namespace and name, up to limit of the snapshots that match selector and for which keep says
// so, beginning behind the key after (nil: with the first), and whether there are more. It holds the store's lock while
// it looks, so keep must be quick and must not call the store.
func (s *Store) Page(after *types.NamespacedName, selector map[string]string, limit int, keep func(*Proxy) bool) (page []*Proxy, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	take := func(key types.NamespacedName) bool {
		p := s.proxies[key]
		if after != nil && p.Key == *after || !p.Matches(selector) || !keep(p) {
			return true
		}
		if len(page) == limit {
			more = true
			return false
		}
		page = append(page, p)
		return true
	}
	if few, ok := s.smallest(selector); ok && len(few) < len(s.proxies)/8 {
		for _, key := range behind(after, few) {
			if !take(key) {
				break
			}
		}
		return page, more
	}
	if after == nil {
		s.sorted.Ascend(take)
	} else {
		s.sorted.AscendGreaterOrEqual(*after, take)
	}
	return page, more
}

// behind returns those of keys that come after, sorted.
func behind(after *types.NamespacedName, keys map[types.NamespacedName]struct{}) []types.NamespacedName {
	out := make([]types.NamespacedName, 0, len(keys))
	for key := range keys {
		if after == nil || compareKeys(key, *after) > 0 {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

func (s *Store) candidates(selector map[string]string) iter.Seq[*Proxy] {
	if len(selector) == 0 {
		return func(yield func(*Proxy) bool) {
			for _, p := range s.proxies {
				if !yield(p) {
					return
				}
			}
		}
	}
	smallest, _ := s.smallest(selector)
	return func(yield func(*Proxy) bool) {
		for key := range smallest {
			if !yield(s.proxies[key]) {
				return
			}
		}
	}
}

// smallest returns the smallest of the selector's index entries; ok is false for an empty selector.
func (s *Store) smallest(selector map[string]string) (smallest map[types.NamespacedName]struct{}, ok bool) {
	for k, v := range selector {
		if set := s.byAttr[attribute{k, v}]; !ok || len(set) < len(smallest) {
			smallest, ok = set, true
		}
	}
	return smallest, ok
}

func compareKeys(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func keyOf(old, next *Proxy) types.NamespacedName {
	if next != nil {
		return next.Key
	}
	return old.Key
}

func sameAttributes(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return true
}

func add[K comparable](index map[K]map[types.NamespacedName]struct{}, k K, key types.NamespacedName) {
	set := index[k]
	if set == nil {
		set = map[types.NamespacedName]struct{}{}
		index[k] = set
	}
	set[key] = struct{}{}
}

func drop[K comparable](index map[K]map[types.NamespacedName]struct{}, k K, key types.NamespacedName) {
	delete(index[k], key)
	if len(index[k]) == 0 {
		delete(index, k)
	}
}
