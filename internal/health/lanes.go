package health

import (
	"container/list"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// youngAge is how long a probe may keep its place in the fast lane.
	youngAge = time.Second
	// yieldAge is after how long it gives the place up when others wait for it: many targets that die at once, each
	// holding a place for youngAge, would otherwise make live ones late.
	yieldAge = 50 * time.Millisecond
)

type laneName int

const (
	// fast is for targets that were not failing.
	fast laneName = iota
	// slow is for targets that failed last time, and for probes that take long.
	slow
	laneCount
)

// job is one probe under way.
type job struct {
	st *state
	// proxy is what is probed; the state may have moved on to a later snapshot when the result comes in.
	proxy *fleet.Proxy
	due   time.Duration
	began time.Duration
	lane  laneName
	young *list.Element
}

// lanes counts the probes under way, so that dead targets never keep live ones waiting.
//
// The fast lane holds at most fastCap probes. One that gets old moves over to the slow lane, which holds slowCap. A
// quarter of the slow lane is kept for those moves: probes that begin in it leave that much free.
type lanes struct {
	fastCap, slowCap int
	inUse            [laneCount]int
	// young are the jobs of the fast lane, the oldest first.
	young list.List
}

func newLanes(fastCap, slowCap int) *lanes { return &lanes{fastCap: fastCap, slowCap: slowCap} }

// enter gives j a place in its lane, false when there is none.
func (l *lanes) enter(j *job) bool {
	switch j.lane {
	case fast:
		if l.inUse[fast] >= l.fastCap && !l.move(j.began, yieldAge) {
			return false
		}
		j.young = l.young.PushBack(j)
	default:
		if l.inUse[slow] >= l.slowCap-l.slowCap/4 {
			return false
		}
	}
	l.inUse[j.lane]++
	return true
}

// leave gives the place of j back.
func (l *lanes) leave(j *job) {
	l.inUse[j.lane]--
	if j.young != nil {
		l.young.Remove(j.young)
		j.young = nil
	}
}

// age moves every job that is no longer young out of the fast lane, as far as there is room.
func (l *lanes) age(now time.Duration) {
	for l.move(now, youngAge) {
	}
}

// oldest returns the oldest job of the fast lane, nil when there is none.
func (l *lanes) oldest() *job {
	front := l.young.Front()
	if front == nil {
		return nil
	}
	return front.Value.(*job) //nolint:forcetypeassert // enter puts nothing else in
}

// move takes the oldest job out of the fast lane if it is at least that old and the slow lane has room.
func (l *lanes) move(now, age time.Duration) bool {
	j := l.oldest()
	if j == nil || l.inUse[slow] >= l.slowCap || now-j.began < age {
		return false
	}
	l.leave(j)
	j.lane = slow
	l.inUse[slow]++
	return true
}

// nextMove returns when the oldest job of the fast lane may leave it, given whether others wait; false when only the
// end of a probe can change anything.
func (l *lanes) nextMove(waiting bool) (time.Duration, bool) {
	j := l.oldest()
	if j == nil || l.inUse[slow] >= l.slowCap {
		return 0, false
	}
	age := youngAge
	if waiting {
		age = yieldAge
	}
	return j.began + age, true
}
