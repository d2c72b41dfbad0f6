package client

import "time"

// clock is what the package knows of time, so that its tests need not wait. Time limits of single HTTP exchanges are
// real time: the network knows no other.
type clock interface {
	Now() time.Time
	NewTimer(d time.Duration) timer
	// AfterFunc calls f once d is over, in a goroutine of its own, and returns what takes that back.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type timer interface {
	C() <-chan time.Time
	Stop() bool
}

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) NewTimer(d time.Duration) timer { return wallTimer{time.NewTimer(d)} }

func (wallClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

type wallTimer struct{ *time.Timer }

func (t wallTimer) C() <-chan time.Time { return t.Timer.C }
