package lease

import (
	"slices"
	"time"
)

// passedOver is for how many proxies that cool for one target they are passed over one by one; past it the requests for
// that target have a ranking of their own.
const passedOver = 64

// pick returns the best proxy for q, or nil and what stood in the way. It costs the same however many proxies there are,
// but for a ranking of the request's class that has to be built first. l.mu is held.
func (l *Ledger) pick(q Query, now time.Time) (*seat, *NoMatchError) {
	cold := l.targets[q.Target]
	own := len(cold) > passedOver
	if !l.rankings.affords(q, own, l.effort(q)) {
		if s := l.glance(q, now); s != nil {
			return s, nil
		}
	}
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

// A request whose class has no ranking yet looks at glanceAt of the best proxies of all, at one more for each glanceShare
// that there are, and past those that cool for its target, up to maxGlance of them.
const (
	glanceAt    = 64
	glanceShare = 64
	maxGlance   = 4096
)

// glance returns the best proxy for q when it is among the best of all; otherwise nil says nothing.
func (l *Ledger) glance(q Query, now time.Time) *seat {
	all := l.rankings.of(Query{Prefer: q.Prefer}, false, l.rankings.sorted, now)
	looked, most := 0, glanceAt+min(len(l.targets[q.Target]), maxGlance)+l.effort(q)/glanceShare
	fits := func(s *seat) bool {
		return (len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, s.proxy.Key.Namespace)) && s.proxy.Matches(q.Selector) &&
			s.toward(q.Target, now).hindrance == hindranceNone
	}
	best := all.best(func(s *seat) bool {
		looked++
		return looked < most && s.hindrance == hindranceNone && !fits(s)
	}, &l.rankings.front)
	if best == nil || !fits(best) {
		return nil
	}
	return best
}

// effort is how many seats must be looked at to rank the class of q.
func (l *Ledger) effort(q Query) int {
	most := len(l.rankings.seats)
	if len(q.Selector) == 0 {
		return most
	}
	// A look at every seat in its order is cheaper than many in none.
	if few := l.o.Fleet.Fewest(q.Selector); few <= most/16 {
		return few
	}
	return most
}

// candidates returns the seats that may match q.
func (l *Ledger) candidates(q Query) []*seat {
	if l.effort(q) == len(l.rankings.seats) {
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
