package instrument

import "time"

// shut says in which way a target is shut.
type shut int

const (
	shutNot shut = iota
	// shutSilent: it does not answer.
	shutSilent
	// shutDenied: it does not accept the operator.
	shutDenied
)

// After a failure the target is left alone for the first wait, doubling up to the limit.
const (
	silenceFirst, silenceLimit = 10 * time.Second, 5 * time.Minute
	deniedFirst, deniedLimit   = time.Minute, 15 * time.Minute
	// besideCanary bounds the wait of those who come while the canary is under way. If it is answered, they are woken.
	besideCanary = time.Minute
)

// waitAfter returns the wait after the n-th failure in a row, counted from 0.
func (s shut) waitAfter(n int) time.Duration {
	first, limit := silenceFirst, silenceLimit
	if s == shutDenied {
		first, limit = deniedFirst, deniedLimit
	}
	if n >= 10 {
		return limit
	}
	return min(first<<n, limit)
}

// gate keeps calls away from a target that would only fail. Every wait lets one call through, the canary; what it finds
// opens the gate or shuts it for longer.
type gate struct {
	shut shut
	// cause is what the target said when the gate was shut. It is kept until the gate opens, although each canary may hear
	// it in other words: it is shown by every Proxy that waits.
	cause string
	// word is the reason that a check last gave.
	word string
	// shutAt and openedAt are when the gate was last shut (again) and opened.
	shutAt, openedAt order
	until            time.Time

	// last, failures and wait are of the latest row of failures; opened is when it ended. A target that fails again right
	// after it has opened goes on where it was: it may answer one kind of call and refuse another.
	last     shut
	failures int
	wait     time.Duration
	opened   time.Time
}

// pass says whether a call may try the target, as the canary.
func (g *gate) pass(now time.Time, tried bool) (why refusal, ok bool) {
	why = refusal{shut: g.shut, cause: g.cause}
	if why.wait = g.until.Sub(now); why.wait > 0 {
		return why, false
	}
	if tried {
		why.wait = min(g.wait, besideCanary)
		return why, false
	}
	return refusal{}, true
}

// close shuts the gate, or keeps it shut for longer.
func (g *gate) close(now order, at time.Time, how shut, cause string) {
	row := g.last == how && (g.shut == how || g.shut == shutNot && !g.opened.IsZero() && at.Sub(g.opened) < g.wait)
	if !row {
		g.failures = 0
	}
	if g.shut != how {
		g.cause, g.word = cause, ""
	}
	g.wait = how.waitAfter(g.failures)
	g.failures++
	g.shut, g.last, g.shutAt, g.until = how, how, now, at.Add(g.wait)
}

// open opens the gate and reports whether it was shut.
func (g *gate) open(now order, at time.Time) bool {
	if g.shut == shutNot {
		return false
	}
	g.shut, g.cause, g.word, g.openedAt, g.opened = shutNot, "", "", now, at
	return true
}
