package lease

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Prefer decides between proxies that hold equally many leases.
type Prefer string

const (
	// PreferLatency takes the lowest latency of the last reported probe; unknown ones come last.
	PreferLatency Prefer = "latency"
	// PreferRotation takes the one whose last lease was granted longest ago; never leased ones come first.
	PreferRotation Prefer = "rotation"
)

// Valid reports whether p is one of the constants.
func (p Prefer) Valid() bool { return p == PreferLatency || p == PreferRotation }

// Result is what a holder says of a proxy.
type Result string

// The results. RateLimited and Banned start a cooldown, OK changes nothing.
const (
	ResultOK          Result = "ok"
	ResultRateLimited Result = "rate_limited"
	ResultBanned      Result = "banned"
)

// Valid reports whether r is one of the constants.
func (r Result) Valid() bool { return r == ResultOK || r == ResultRateLimited || r == ResultBanned }

// Query says which proxies come into question and in which order.
type Query struct {
	// Namespaces restricts to these; empty for all.
	Namespaces []string
	// Selector holds attributes that must all be equal; empty for every proxy.
	Selector map[string]string
	// Target is the canonical host name that the lease is for; empty for none in particular.
	Target string
	// Prefer is PreferLatency when empty.
	Prefer Prefer
}

// Request asks for a lease.
type Request struct {
	Query
	// TTL is positive; the lease expires that long after the grant, but never later than Options.MaxLifetime after it.
	TTL time.Duration
	// Principal owns the lease: to everybody else it does not exist.
	Principal string
	// Wait is how long to wait for a proxy at most when none is free; 0 for not at all.
	Wait time.Duration
	// Key names the request among those of its principal, so that repeating it yields the lease that it led to for as long
	// as that lives; empty for no name. Body is what a repeated request must agree in.
	Key  string
	Body [32]byte
}

// Lease is a copy of what the ledger knows of a live lease at the time of the call that returned it.
type Lease struct {
	// ID cannot be guessed: it holds at least 128 random bits.
	ID string
	// Key is the instance or endpoint on which the lease is held.
	Key fleet.LeaseKey
	// Proxy is the snapshot of the proxy as of the call.
	Proxy *fleet.Proxy
	// Live counts the leases held on Key, this one included.
	Live int
	// Target and Principal are those of the request.
	Target    string
	Principal string
	// Start is when it was granted, ExpiresAt the first instant at which it is no longer live.
	Start     time.Time
	ExpiresAt time.Time
	// TTL is what the grant or the last renewal gave.
	TTL time.Duration
}

// keyName is an idempotency key with whose it is.
type keyName struct{ principal, key string }

// keyName is zero for a request without a key.
func (r *Request) keyName() keyName {
	if r.Key == "" {
		return keyName{}
	}
	return keyName{r.Principal, r.Key}
}

// ending is how a lease came to its end.
type ending uint8

const (
	endNone ending = iota
	endReleased
	endExpired
	endGone
)

// record is one lease inside the ledger, live or remembered: what late reports need, for there may be a hundred remembered
// leases for each live one. The ledger's mutex guards it.
type record struct {
	id        string
	principal string
	target    string
	account   *account
	// term is nil once the lease has ended.
	*term
	// forget is when an ended lease is forgotten; inEnded is its position in the queue of those.
	forget  time.Time
	inEnded int
	ended   ending
}

// term is what is known of a lease as long as it lives.
type term struct {
	proxy   types.NamespacedName
	start   time.Time
	expires time.Time
	ttl     time.Duration
	// key is set where the request had one; body goes with it.
	key  keyName
	body [32]byte
	// Positions in the queues that hold the record.
	inLive, inAccount int
}

func (r *record) lease(p *fleet.Proxy) Lease {
	return Lease{
		ID: r.id, Key: r.account.key, Proxy: p, Live: r.account.held.Len(), Target: r.target, Principal: r.principal,
		Start: r.start, ExpiresAt: r.expires, TTL: r.ttl,
	}
}
