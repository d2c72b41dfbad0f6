package main

import (
	"runtime"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// loopClock drives a loop that waits for one timer: it goes on by what the loop wants to wait, and not before the loop
// has said so.
type loopClock struct {
	*clocktesting.FakeClock
	// set holds the latest wait that the loop asked for and advance has not seen yet.
	set chan time.Duration
}

func newLoopClock() *loopClock {
	return &loopClock{FakeClock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), set: make(chan time.Duration, 1)}
}

// advance lets the loop's wait pass and then gives way to all that this sets off.
func (c *loopClock) advance() {
	c.Step(<-c.set)
	runtime.Gosched()
}

// NewTimer implements clock.WithTicker.
func (c *loopClock) NewTimer(d time.Duration) clock.Timer {
	t := loopTimer{Timer: c.FakeClock.NewTimer(d), set: c.set}
	t.set <- d
	return t
}

type loopTimer struct {
	clock.Timer
	set chan time.Duration
}

// Reset implements clock.Timer. Only the loop calls it.
func (t loopTimer) Reset(d time.Duration) bool {
	active := t.Timer.Reset(d)
	select {
	case <-t.set:
	default:
	}
	t.set <- d
	return active
}
