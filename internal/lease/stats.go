package lease

// Stats is what a ledger counts. Ended and Reports only ever grow.
type Stats struct {
	// Live are the leases held, Waiting the requests that wait for a proxy, Cooldowns the rests of proxies: one for each
	// target that a proxy rests for, and one for a proxy that rests for every target.
	Live, Waiting, Cooldowns int
	Proxies                  Standings
	Ended                    Ended
	// Reports by result, as far as they were about a lease that is known.
	Reports map[Result]uint64
}

// Standings counts the proxies of the fleet by what keeps them from being leased, regardless of any target.
type Standings struct {
	// Free are those that could be leased now.
	Free int
	// AtCapacity hold as many leases as their cap allows.
	AtCapacity int
	// Cooling rest for every target.
	Cooling int
	// Unoffered are offered to nobody, withdrawn, or kept back after the start.
	Unoffered int
}

// Ended counts leases by how they came to their end.
type Ended struct {
	Released, Expired uint64
	// Gone are those whose proxy left the fleet, or became another instance, while they were held.
	Gone uint64
}

// tally is what is counted as it happens. The ledger's mutex guards it.
type tally struct {
	ended   Ended
	reports map[Result]uint64
}

func (t *tally) end(how ending) {
	switch how {
	case endReleased:
		t.ended.Released++
	case endExpired:
		t.ended.Expired++
	case endGone:
		t.ended.Gone++
	case endNone:
	}
}

// Stats returns what the ledger counts, all as of one instant. It takes time in proportion to the fleet, with the ledger's
// lock held: 10,000 proxies are a fraction of a millisecond.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	s := Stats{Live: l.live.Len(), Waiting: l.queue.count, Cooldowns: l.cooling.Len(), Ended: l.tally.ended, Reports: map[Result]uint64{}}
	for _, r := range []Result{ResultOK, ResultRateLimited, ResultBanned} {
		s.Reports[r] = l.tally.reports[r]
	}
	for _, seat := range l.seats {
		switch seat.hindrance {
		case hindranceNone:
			s.Proxies.Free++
		case hindranceFull:
			s.Proxies.AtCapacity++
		case hindranceCooling:
			s.Proxies.Cooling++
		case hindranceUnoffered:
			s.Proxies.Unoffered++
		}
	}
	return s
}
