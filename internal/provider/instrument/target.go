package instrument

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// maxInFlight bounds the calls to a target that answers.
	maxInFlight = 4
	// After a call without an answer the target is left alone for silenceFirst, doubling up to silenceLimit.
	silenceFirst, silenceLimit = 10 * time.Second, 5 * time.Minute
	// leastPatience is how long a call must have waited for its missing answer to say something of the target: what is
	// left until a deadline may be next to nothing when a call begins.
	leastPatience = time.Second
)

// target is what the guard knows of one target. The guard's lock protects it.
type target struct {
	inFlight int
	// trusted: the last call was answered.
	trusted bool
	// silences counts calls without an answer in a row; of those that ran side by side, one counts.
	silences int
	// failedAt is when the last of them was counted, closedUntil when the next call may try.
	failedAt, closedUntil time.Time
}

// enter takes a place, or says why there is none and after how long to ask again (0: soon).
func (t *target) enter(now time.Time) (wait time.Duration, reason string) {
	if wait := t.closedUntil.Sub(now); wait > 0 {
		return wait, provider.ReasonUnreachable
	}
	limit := 1
	if t.trusted {
		limit = maxInFlight
	}
	if t.inFlight >= limit {
		return 0, provider.ReasonBusy
	}
	t.inFlight++
	return 0, ""
}

// answered notes an answer.
func (t *target) answered() {
	t.trusted, t.silences = true, 0
	t.closedUntil = time.Time{}
}

// silent notes that a call which started then has ended without an answer.
func (t *target) silent(started, now time.Time) {
	t.trusted = false
	if t.silences > 0 && started.Before(t.failedAt) {
		return // it ran side by side with one that counted already
	}
	wait := silenceLimit
	if t.silences < 10 {
		wait = min(silenceFirst<<t.silences, silenceLimit)
	}
	t.silences++
	t.failedAt, t.closedUntil = now, now.Add(wait)
}
