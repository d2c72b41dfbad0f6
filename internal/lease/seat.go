package lease

import (
	"cmp"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// hindrance is why a proxy cannot be leased now.
type hindrance uint8

const (
	hindranceNone hindrance = iota
	// hindranceUnoffered: the fleet offers it to nobody, it is withdrawn, or kept back after the start.
	hindranceUnoffered
	hindranceFull
	hindranceCooling
	hindrances = iota
)

// standing is what the order over the fleet must know of one proxy's leases.
type standing struct {
	hindrance  hindrance
	live       int
	lastLeased uint64
	// freeAt is when the hindrance ends by itself; zero when it does not.
	freeAt time.Time
}

// seat is one proxy of the fleet as grants see it. Its number is never used twice, and a proxy whose attributes or lease
// key change gets a new seat: what matches a class of requests is therefore fixed for a seat's life. The ledger's mutex
// guards it.
type seat struct {
	number int32
	// gone: the seat has left.
	gone  bool
	proxy *fleet.Proxy
	key   fleet.LeaseKey
	// offered is what the fleet says, worked out once per snapshot.
	offered bool
	// account is nil while nothing is kept for the proxy.
	account *account
	// standing is as of the last change, without regard to any target.
	standing
}

// toward is the seat's standing for one target.
func (s *seat) toward(target string, now time.Time) standing {
	if s.hindrance == hindranceUnoffered || target == "" {
		return s.standing
	}
	return s.account.standing(s.proxy.Cap, target, now)
}

// before reports whether a is to be given before b, both being free. It is a total order.
func (p Prefer) before(a, b *seat) bool {
	c := cmp.Compare(a.live, b.live)
	if c == 0 {
		if p == PreferRotation {
			c = cmp.Compare(a.lastLeased, b.lastLeased)
		} else {
			c = compareLatency(a.proxy.Verdict.Latency, b.proxy.Verdict.Latency)
		}
	}
	if c != 0 {
		return c < 0
	}
	return cmp.Or(strings.Compare(a.proxy.Key.Name, b.proxy.Key.Name), strings.Compare(a.proxy.Key.Namespace, b.proxy.Key.Namespace)) < 0
}

// compareLatency puts 0, which means unknown, last.
func compareLatency(a, b time.Duration) int {
	if (a == 0) != (b == 0) {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}
