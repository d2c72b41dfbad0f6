package instrument

import "time"

const (
	// maxInFlight bounds the calls to a target that answers.
	maxInFlight = 4
	// leastPatience is how long a call must have waited for its missing answer to say something of the target: what is
	// left until a deadline may be next to nothing when a call begins.
	leastPatience = time.Second
)

// order counts what happens at a guard: each call's beginning, and each opening and closing of a gate, has a number of its
// own. A clock would not do: two things may happen at one time.
type order uint64

// target is what the guard knows of one target. The guard's lock protects it.
type target struct {
	inFlight int
	// trusted: the last call was answered.
	trusted bool
	// heard is when the newest call that was answered began.
	heard order
	gate  gate
}

// refusal is why a call is not made; the zero value is none.
type refusal struct {
	shut shut
	// busy: nothing is wrong with the target; a place will be free soon.
	busy bool
	// cause is what the target said, where it said something.
	cause string
	// wait is how long to wait before asking again; 0 for soon.
	wait time.Duration
	// news: the gate has just been shut.
	news bool
}

// enter takes a place, or says why there is none.
func (t *target) enter(now time.Time) (why refusal, ok bool) {
	if t.gate.shut != shutNot {
		if why, ok = t.gate.pass(now, t.inFlight > 0); !ok {
			return why, false
		}
	}
	limit := 1
	if t.trusted {
		limit = maxInFlight
	}
	if t.inFlight >= limit {
		return refusal{busy: true}, false
	}
	t.inFlight++
	return refusal{}, true
}

// answered notes an answer to a call that began then. It reports whether that has opened the gate.
func (t *target) answered(began, now order, at time.Time) (opened bool) {
	if t.gate.shut != shutNot && began < t.gate.shutAt {
		return false // it is from before the gate was shut
	}
	t.trusted, t.heard = true, max(t.heard, began)
	return t.gate.open(now, at)
}

// failed notes that a call which began then, in a place that was taken then, found the target shut in some way. It reports
// whether that has shut a gate that was open.
func (t *target) failed(began, placed, now order, at time.Time, how shut, cause string) (news bool) {
	if began < t.gate.openedAt {
		return false // the gate has opened since
	}
	t.trusted = false
	news = t.gate.shut == shutNot
	if !news && placed < t.gate.shutAt {
		return false // its pass ran side by side with the one that has shut the gate
	}
	t.gate.close(now, at, how, cause)
	return news
}
