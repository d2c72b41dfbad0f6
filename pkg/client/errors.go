package client

import (
	"errors"
	"fmt"
	"time"
)

// What the server refuses with, for errors.Is. Each stands for one error code of the API; the error itself is an *APIError,
// for ErrNoMatch a *NoMatchError.
var (
	// ErrInvalidRequest: the server does not accept the request as it is (400).
	ErrInvalidRequest = errors.New("invalid request")
	// ErrTTLOutOfRange: the server grants no such TTL (400).
	ErrTTLOutOfRange = errors.New("ttl out of range")
	// ErrInvalidResult: the server does not know the reported result (400).
	ErrInvalidResult = errors.New("invalid result")
	// ErrUnauthorized: the token is missing or not valid (401).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound: there is no such proxy (404).
	ErrNotFound = errors.New("not found")
	// ErrUnknownLease: there is no such lease, it was released, or it is another principal's (404).
	ErrUnknownLease = errors.New("unknown lease")
	// ErrMethodNotAllowed: BaseURL points at something else than this API (405).
	ErrMethodNotAllowed = errors.New("method not allowed")
	// ErrNoMatch: no proxy can be leased now (409).
	ErrNoMatch = errors.New("no match")
	// ErrDraining: the proxy is about to be replaced; its leases end, but are not renewed (409).
	ErrDraining = errors.New("draining")
	// ErrExpired: the lease ran out, on the server (410) or by the client's own clock.
	ErrExpired = errors.New("expired")
	// ErrProxyGone: the leased proxy was replaced or deleted (410).
	ErrProxyGone = errors.New("proxy gone")
	// ErrTooLarge: the request was too large (413).
	ErrTooLarge = errors.New("too large")
	// ErrUnsupportedEncoding: something between client and server encoded the body (415).
	ErrUnsupportedEncoding = errors.New("unsupported encoding")
	// ErrIdempotencyMismatch: the idempotency key stands for another request (422).
	ErrIdempotencyMismatch = errors.New("idempotency mismatch")
	// ErrNotLeader: every try met a standby (503).
	ErrNotLeader = errors.New("not leader")
	// ErrOverloaded: the server grants no more leases at the moment (503).
	ErrOverloaded = errors.New("overloaded")
	// ErrInternal: the server failed (500).
	ErrInternal = errors.New("internal error")
)

// What the client itself ends with.
var (
	// ErrEpochChanged: another ledger grants leases now, so those of the one before are gone.
	ErrEpochChanged = errors.New("epoch changed: the ledger that granted the lease is gone")
	// ErrReleased: the lease was released, by Lease.Release or Client.Close.
	ErrReleased = errors.New("lease released")
	// ErrClosed: the client or the transport was closed.
	ErrClosed = errors.New("closed")
	// ErrBadAnswer: the server's answer is not one of this API; the message names the member that is wrong.
	ErrBadAnswer = errors.New("bad answer")
)

// sentinels by the code on the wire.
func sentinel(code string) error {
	switch code {
	case "invalid_request":
		return ErrInvalidRequest
	case "ttl_out_of_range":
		return ErrTTLOutOfRange
	case "invalid_result":
		return ErrInvalidResult
	case "unauthorized":
		return ErrUnauthorized
	case "not_found":
		return ErrNotFound
	case "unknown_lease":
		return ErrUnknownLease
	case "method_not_allowed":
		return ErrMethodNotAllowed
	case "no_match":
		return ErrNoMatch
	case "draining":
		return ErrDraining
	case "expired":
		return ErrExpired
	case "proxy_gone":
		return ErrProxyGone
	case "too_large":
		return ErrTooLarge
	case "unsupported_encoding":
		return ErrUnsupportedEncoding
	case "idempotency_mismatch":
		return ErrIdempotencyMismatch
	case "not_leader":
		return ErrNotLeader
	case "overloaded":
		return ErrOverloaded
	case "internal":
		return ErrInternal
	}
	return nil
}

// APIError is an answer other than success. It matches the sentinel of its code.
type APIError struct {
	// Status is the HTTP status, 300 to 599.
	Status int
	// Code is the API's error code, "unknown_lease" for example. It is empty when the answer did not come from the API,
	// but from a gateway in between.
	Code string
	// Message is for people: printable, at most 300 bytes.
	Message string
	// RetryAfter is what the server asked to wait before the next try; 0 when it named nothing.
	RetryAfter time.Duration
}

// Error implements error.
func (e *APIError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Message)
	}
	return e.Code + ": " + e.Message
}

// Is reports whether target is the sentinel of the code.
func (e *APIError) Is(target error) bool {
	s := sentinel(e.Code)
	return s != nil && s == target
}

// NoMatchError says that no proxy can be leased now, and why. It matches ErrNoMatch. Considered is the sum of the counts
// below it. The counts may be up to 100 ms old.
type NoMatchError struct {
	// Considered counts the proxies that match selector and namespace. At 0 waiting is no use.
	Considered int
	// AtCapacity counts those on which as many leases are held as they allow.
	AtCapacity int
	// InCooldown counts those that rest for the target after a report.
	InCooldown int
	// Unhealthy counts those that are offered to nobody: unhealthy, not probed yet, cordoned or draining.
	Unhealthy int
	// FreeAt is, by the server's clock, the earliest moment at which one could be free without anybody releasing; zero when
	// none will be by itself.
	FreeAt time.Time
	// RetryAfter is what the server asked to wait before the next try; 0 when it named nothing.
	RetryAfter time.Duration
}

// Error implements error.
func (e *NoMatchError) Error() string {
	if e.Considered == 0 {
		return "no proxy matches the request"
	}
	return fmt.Sprintf("no proxy is free: %d match, %d at capacity, %d in cooldown, %d unhealthy or withdrawn",
		e.Considered, e.AtCapacity, e.InCooldown, e.Unhealthy)
}

// Is reports whether target is ErrNoMatch.
func (e *NoMatchError) Is(target error) bool { return target == ErrNoMatch }
