package discovery

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

const (
	maxRetryAfter = 5 * time.Second
	// retrySpread is over how many seconds those come back who were refused at the same moment.
	retrySpread = 3
)

type noMatchBody struct {
	errorBody
	Considered int    `json:"considered"`
	AtCapacity int    `json:"atCapacity"`
	InCooldown int    `json:"inCooldown"`
	Unhealthy  int    `json:"unhealthy"`
	FreeAt     string `json:"freeAt,omitzero"`
}

// noMatch answers a request that no proxy can serve now. When none matches at all there is nothing to wait for, so the
// answer names no time to come back.
func (s *Server) noMatch(x *exchange, refused *lease.NoMatchError) {
	body := noMatchBody{
		errorBody:  errorBody{Error: "no_match", Message: "no proxy matches the request"},
		Considered: refused.Considered, AtCapacity: refused.AtCapacity, InCooldown: refused.InCooldown, Unhealthy: refused.Unhealthy,
	}
	if refused.Considered > 0 {
		body.Message = "every proxy that matches is at capacity, in cooldown or not offered (unhealthy, unprobed, cordoned or draining)"
		wait := maxRetryAfter
		if !refused.FreeAt.IsZero() {
			wait = min(wait, refused.FreeAt.Sub(s.o.Clock.Now()))
			// Up to the next millisecond: at the time given it is free.
			body.FreeAt = timestamp(refused.FreeAt.Add(time.Millisecond - time.Nanosecond))
		}
		x.Header().Set("Retry-After", retryAfter(wait))
	}
	x.json(http.StatusConflict, body)
}

// retryAfter returns whole seconds, at least wait and at least 1, plus jitter.
func retryAfter(wait time.Duration) string {
	seconds := max(1, int((wait+time.Second-1)/time.Second))
	return strconv.Itoa(seconds + rand.IntN(retrySpread+1)) //nolint:gosec // spreads load, guards nothing
}
