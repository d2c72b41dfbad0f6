package lease

import (
	"time"
)

// passedOver is for how many proxies that cool for one target they are passed over one by one; past it the requests for
// that target have a ranking of their own.
const passedOver = 64

// pick returns the best proxy for q, or nil and what stood in the way. It costs the same however many proxies there are,
// but for the first request of its class. l.mu is held.
func (l *Ledger) pick(q Query, now time.Time) (*seat, *NoMatchError) {
	cold := l.targets[q.Target]
	own := len(cold) > passedOver
	r := l.rankings.of(q, own, func() []*seat { return l.candidates(q) }, now)
	pass := func(*seat) bool { return false }
	if !own && len(cold) > 0 {
		pass = func(s *seat) bool {
			_, is := cold[s.account]
			return is
		}
	}
	var best *seat
	if best = r.best(pass, &l.rankings.front); best != nil && best.toward(q.Target, now).hindrance == hindranceNone {
		return best, nil
	}
	refused := &NoMatchError{
		Considered: r.considered(), AtCapacity: r.count[hindranceFull], InCooldown: r.count[hindranceCooling],
		Unhealthy: r.count[hindranceUnoffered],
	}
	if best != nil {
		refused.freeAt(best.toward(q.Target, now))
	}
	if own {
		return nil, refused
	}
	for a := range cold { // the ranking counts them without regard to the target
		s := a.seat
		if s == nil || !r.matches(s.proxy) {
			continue
		}
		refused.recount(s.standing, -1)
		refused.recount(s.toward(q.Target, now), 1)
		refused.freeAt(s.toward(q.Target, now))
	}
	return nil, refused
}

func (e *NoMatchError) recount(s standing, n int) {
	switch s.hindrance {
	case hindranceFull:
		e.AtCapacity += n
	case hindranceCooling:
		e.InCooldown += n
	case hindranceUnoffered:
		e.Unhealthy += n
	case hindranceNone:
		// Free but for the target.
	}
}

func (e *NoMatchError) freeAt(s standing) {
	if !s.freeAt.IsZero() && (e.FreeAt.IsZero() || s.freeAt.Before(e.FreeAt)) {
		e.FreeAt = s.freeAt
	}
}

// candidates returns the seats that may match q.
func (l *Ledger) candidates(q Query) []*seat {
	// A look at every seat in its order is cheaper than many in none.
	if len(q.Selector) == 0 || l.o.Fleet.Fewest(q.Selector) > len(l.rankings.seats)/16 {
		return l.rankings.sorted()
	}
	var out []*seat
	for _, p := range l.o.Fleet.Select("", q.Selector) {
		if s := l.seats[p.Key]; s != nil {
			out = append(out, s)
		}
	}
	return out
}
