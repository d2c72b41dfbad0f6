package lease

import (
	"errors"
	"fmt"
	"time"
)

// What the ledger refuses with; NoMatchError is the one refusal that carries data.
var (
	// ErrUnknownLease: there is no such lease, it was released, it is forgotten, or it belongs to another principal.
	ErrUnknownLease = errors.New("unknown lease")
	// ErrExpired: the lease ran out, not longer ago than the cooldown window.
	ErrExpired = errors.New("lease expired")
	// ErrProxyGone: the instance or endpoint that the lease is held on is no longer part of the fleet.
	ErrProxyGone = errors.New("leased proxy is gone")
	// ErrDraining: the proxy is being replaced or deleted, its leases end but are not renewed.
	ErrDraining = errors.New("leased proxy is draining")
	// ErrOverloaded: as many leases are live as the ledger holds, or the fleet changes faster than it can be picked from.
	ErrOverloaded = errors.New("too many live leases")
	// ErrMayNotGrant: this ledger is not, or no longer surely, the one that grants.
	ErrMayNotGrant = errors.New("this ledger may not grant")
	// ErrTTL: the TTL asked for is not positive.
	ErrTTL = errors.New("lease ttl must be positive")
	// ErrKeyReused: the idempotency key stands for a request with another body.
	ErrKeyReused = errors.New("idempotency key was used with another body")
	// ErrResult: the result reported is none of the constants.
	ErrResult = errors.New("unknown report result")
)

// NoMatchError says why no proxy could be leased. Considered is the sum of the other counts: each proxy that matched
// counts once, a cooling one as cooling even when it is also at capacity.
type NoMatchError struct {
	// Considered counts the proxies that matched namespace and selector.
	Considered int
	// AtCapacity counts those on which as many leases are held as their cap allows.
	AtCapacity int
	// InCooldown counts those that rest for the target of the request, or for every target.
	InCooldown int
	// Unhealthy counts those offered to nobody: unhealthy, unprobed, cordoned, draining, not provisioned.
	Unhealthy int
	// FreeAt is the earliest time at which one could be free without anybody releasing; zero when none will by itself.
	FreeAt time.Time
}

// Error implements error.
func (e *NoMatchError) Error() string {
	return fmt.Sprintf("no proxy to lease: %d considered, %d at capacity, %d in cooldown, %d unhealthy",
		e.Considered, e.AtCapacity, e.InCooldown, e.Unhealthy)
}
