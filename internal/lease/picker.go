package lease

import (
	"cmp"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Picker is the order over the fleet. It holds no state of its own and is safe for concurrent use; it blocks only on
// the store's lock. A pick looks at every proxy that matches the smallest attribute of the selector.
type Picker struct {
	fleet *fleet.Store
}

// NewPicker returns a picker over store.
func NewPicker(store *fleet.Store) *Picker { return &Picker{fleet: store} }

// hindrance is why a proxy that the fleet offers cannot be leased now.
type hindrance int

const (
	hindranceNone hindrance = iota
	hindranceWithdrawn
	hindranceFull
	hindranceCooling
)

// standing is what the picker must know of one proxy's leases.
type standing struct {
	hindrance  hindrance
	live       int
	lastLeased uint64
	// freeAt is when the hindrance ends by itself, if it does.
	freeAt time.Time
}

// pick returns the best proxy for q, or nil and what stood in the way. of tells the standing of one proxy.
func (p *Picker) pick(q Query, of func(*fleet.Proxy) standing) (*fleet.Proxy, *NoMatchError) {
	var best *fleet.Proxy
	var bestStanding standing
	refused := &NoMatchError{}
	for _, candidate := range p.fleet.Select(q.Namespace, q.Selector) {
		refused.Considered++
		if candidate.Withheld() != fleet.WithheldNot {
			refused.Unhealthy++
			continue
		}
		s := of(candidate)
		if s.hindrance != hindranceNone {
			refused.count(s)
			continue
		}
		if best == nil || q.Prefer.before(candidate, best, s, bestStanding) {
			best, bestStanding = candidate, s
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, refused
}

func (e *NoMatchError) count(s standing) {
	switch s.hindrance {
	case hindranceFull:
		e.AtCapacity++
	case hindranceCooling:
		e.InCooldown++
	case hindranceNone, hindranceWithdrawn:
		e.Unhealthy++
		return
	}
	if !s.freeAt.IsZero() && (e.FreeAt.IsZero() || s.freeAt.Before(e.FreeAt)) {
		e.FreeAt = s.freeAt
	}
}

// before reports whether a, standing at x, is to be given before b, standing at y. It is a total order, so the outcome
// does not depend on the order in which the store walks its maps.
func (p Prefer) before(a, b *fleet.Proxy, x, y standing) bool {
	c := cmp.Compare(x.live, y.live)
	if c == 0 && p == PreferRotation {
		c = cmp.Compare(x.lastLeased, y.lastLeased)
	} else if c == 0 {
		c = compareLatency(a.Verdict.Latency, b.Verdict.Latency)
	}
	return cmp.Or(c, strings.Compare(a.Key.Name, b.Key.Name), strings.Compare(a.Key.Namespace, b.Key.Namespace)) < 0
}

// compareLatency puts 0, which means unknown, last.
func compareLatency(a, b time.Duration) int {
	if (a == 0) != (b == 0) {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}
