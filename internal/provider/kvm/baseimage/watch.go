package baseimage

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// Whole is how long a download may take, and how long after its start it may publish.
	Whole = 2 * time.Hour
	// Abandoned is the age at which data without a marker is nobody's any more.
	Abandoned = Whole + time.Hour
	// Unfinished is how many copies without a marker may be in a pool, per checksum.
	Unfinished = 8

	stall  = time.Minute
	look   = 5 * time.Second  // how often the watch looks
	settle = 10 * time.Minute // for what a host may have to write to its disk
)

// phase is what a download waits for, and for how long at most.
type phase struct {
	limit time.Duration
	says  string
}

var (
	connecting = phase{stall, "the host cannot be reached in time"}
	listing    = phase{stall, "the pool does not answer"}
	queueing   = phase{Whole, "others take too long"}
	asking     = phase{stall, "the server does not answer"}
	receiving  = phase{stall, "the server has stopped sending"}
	sending    = phase{stall, "the host has stopped taking data"}
	creating   = phase{settle, "the pool does not finish creating the volume"}
	flushing   = phase{settle, "the pool does not finish writing the volume"}
)

// watch ends a download that makes no progress or takes too long.
type watch struct {
	clock clock.WithTicker
	began time.Time

	mu    sync.Mutex
	in    phase
	since time.Time

	ended chan struct{}
}

// startWatch looks every few seconds until ctx ends, and ends it by cancel with a Failure.
func startWatch(ctx context.Context, c clock.WithTicker, cancel context.CancelCauseFunc) *watch {
	now := c.Now()
	w := &watch{clock: c, began: now, in: connecting, since: now, ended: make(chan struct{})}
	tick := c.NewTicker(look)
	go func() {
		defer close(w.ended)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C():
				if f := w.look(); f != nil {
					cancel(f)
					return
				}
			}
		}
	}()
	return w
}

// wait blocks until the watch has ended, soon after its ctx.
func (w *watch) wait() { <-w.ended }

// enter says what is waited for from now on.
func (w *watch) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in, w.since = p, w.clock.Now()
}

// begin lets the time that a download may take begin now.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = w.clock.Now()
}

func (w *watch) look() *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	switch {
	case now.Sub(w.began) >= Whole:
		return fail(provider.ErrTransient, "the download takes too long")
	case now.Sub(w.since) >= w.in.limit:
		return fail(provider.ErrTransient, "%s", w.in.says)
	}
	return nil
}
