package crash

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"strings"
)

// task is work that goes on only when it is let, from one parking place to the next. It runs as a coroutine: never at the
// same time as its scheduler or as another task, so a run is a function of the order in which tasks are let go.
type task struct {
	next func() (string, bool)
	stop func()
	at   string // where it is parked; "" before its first step
}

// newTask returns a task that does body, which has to call park, from its own goroutine, wherever others may come in
// between.
func newTask(body func(park func(place string))) *task {
	t := &task{}
	t.next, t.stop = iter.Pull(func(yield func(string) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(died); !ok {
					panic(fmt.Sprintf("%v\n%s", r, debug.Stack())) // on its way out the stack gets lost
				}
			}
		}()
		body(func(place string) {
			if !yield(place) {
				panic(died{}) // killed where it was parked: nothing behind this line happens any more
			}
		})
	})
	return t
}

// step lets the task go on to its next parking place.
func (t *task) step() {
	place, ok := t.next()
	if !ok {
		panic("the task has ended")
	}
	t.at = place
}

// decider takes the decisions of a run; at each of them 0 is to go on as before.
type decider interface {
	// decide picks one of n.
	decide(n int) int
}

// decisions are those of one run, as a person can give them back.
type decisions []int

func (ds decisions) String() string {
	end := len(ds)
	for end > 0 && ds[end-1] == 0 {
		end--
	}
	text := make([]string, end)
	for i, d := range ds[:end] {
		text[i] = strconv.Itoa(d)
	}
	return strings.Join(text, ",")
}

func parseDecisions(text string) (ds decisions, err error) {
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		d, err := strconv.Atoi(part)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("decision %q is not a number from 0", part)
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// script decides as it is told, then goes on as before. It notes how many ways there were.
type script struct {
	told  decisions
	taken decisions
	ways  []int
}

func (s *script) decide(n int) int {
	d := 0
	if i := len(s.taken); i < len(s.told) {
		d = min(s.told[i], n-1)
	}
	s.taken, s.ways = append(s.taken, d), append(s.ways, n)
	return d
}

// following returns the decisions of the next run of a depth-first search; ok is false when this was the last one.
func (s *script) following() (next decisions, ok bool) {
	for i := len(s.taken) - 1; i >= 0; i-- {
		if s.taken[i]+1 < s.ways[i] {
			return append(s.taken[:i:i], s.taken[i]+1), true
		}
	}
	return nil, false
}

// dice decides at random, mostly for going on.
type dice struct {
	*rand.Rand
	taken decisions
}

func (d *dice) decide(n int) int {
	way := 0
	if n > 1 && d.IntN(6) == 0 {
		way = 1 + d.IntN(n-1)
	}
	d.taken = append(d.taken, way)
	return way
}

// allowance is how often a run may do what costs something.
type allowance struct {
	switches int // away from an operator that could go on
	oddities int // clock jumps in the middle of a pass, stale caches, lost answers, deaths
}

func (a allowance) covers(b allowance) bool {
	return a.switches >= b.switches && a.oddities >= b.oddities
}

func (a allowance) less(b allowance) allowance {
	return allowance{a.switches - b.switches, a.oddities - b.oddities}
}

// seen remembers states together with what was still allowed in them.
type seen map[fingerprint][]allowance

// before reports whether everything that can follow from state has been or is being explored already, and notes it.
func (s seen) before(state fingerprint, left allowance) bool {
	for _, a := range s[state] {
		if a.covers(left) {
			return true
		}
	}
	s[state] = append(s[state], left)
	return false
}

// shorten returns fewer decisions that fail too.
func shorten(ds decisions, fails func(decisions) bool) decisions {
	for again := true; again; {
		again = false
		for i, d := range ds {
			if d == 0 {
				continue
			}
			fewer := append(decisions{}, ds...)
			if fewer[i] = 0; fails(fewer) {
				ds, again = fewer, true
			}
		}
	}
	return ds
}
