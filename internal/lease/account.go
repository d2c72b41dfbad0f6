package lease

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// account is what the ledger keeps for one lease key. The ledger's mutex guards it.
type account struct {
	key fleet.LeaseKey
	// held are the live leases.
	held queue[*record]
	// withdrawn refuses grants and renewals until the key is readmitted or leaves the fleet.
	withdrawn bool
	// lastLeased numbers the grants of the ledger; 0 for never.
	lastLeased uint64
	// cooling are the targets that the proxy rests for; the empty one stands for all of them.
	cooling map[string]*cooldown
	// seat is the proxy's, nil while the fleet does not hold the key.
	seat *seat
	// strayUntil is when an account whose key the fleet does not hold is dropped.
	strayUntil time.Time
	inStrays   int
}

// cooldown is one proxy's rest for one target.
type cooldown struct {
	account *account
	target  string
	until   time.Time
	place   int
}

func newAccount(key fleet.LeaseKey) *account {
	return &account{key: key, inStrays: -1, held: queue[*record]{
		at:    func(r *record) time.Time { return r.expires },
		place: func(r *record) *int { return &r.inAccount },
	}}
}

// coolsUntil returns the first instant at which the proxy may be leased for target; not after now when it may already.
func (a *account) coolsUntil(target string) (until time.Time) {
	if len(a.cooling) == 0 {
		return until
	}
	if c := a.cooling[""]; c != nil {
		until = c.until
	}
	if c := a.cooling[target]; c != nil && c.until.After(until) {
		until = c.until
	}
	return until
}

// full reports whether no further lease fits under limit; 0 is no limit.
func (a *account) full(limit int32) bool { return limit > 0 && a.held.Len() >= int(limit) }

// idle reports whether dropping the account would lose nothing.
func (a *account) idle() bool {
	return a.held.Len() == 0 && !a.withdrawn && len(a.cooling) == 0
}

// standing is how the proxy stands for target; a nil account is one that never had anything.
func (a *account) standing(limit int32, target string, now time.Time) standing {
	if a == nil {
		return standing{}
	}
	s := standing{live: a.held.Len(), lastLeased: a.lastLeased}
	if a.withdrawn {
		s.hindrance = hindranceUnoffered
		return s
	}
	if a.full(limit) {
		s.hindrance = hindranceFull
		if first, ok := a.held.first(); ok {
			s.freeAt = first.expires
		}
	}
	if until := a.coolsUntil(target); until.After(now) {
		s.hindrance = hindranceCooling
		if until.After(s.freeAt) {
			s.freeAt = until
		}
	}
	return s
}
