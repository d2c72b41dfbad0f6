package forwardproxy

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// idleWatch calls onIdle once when it was not touched for limit. A touch is one
// atomic store, cheap enough for every read and write; the timer looks at it
// only when it fires.
type idleWatch struct {
	clock  clock.WithDelayedExecution
	limit  time.Duration
	onIdle func()
	began  time.Time
	last   atomic.Int64 // of the latest touch, counted from began

	mu      sync.Mutex
	timer   clock.Timer
	stopped bool
}

func watchIdle(c clock.WithDelayedExecution, limit time.Duration, onIdle func()) *idleWatch {
	w := &idleWatch{clock: c, limit: limit, onIdle: onIdle, began: c.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm(limit)
	return w
}

func (w *idleWatch) touch() { w.last.Store(int64(w.clock.Since(w.began))) }

// arm needs mu. The callback leaves the timer's own goroutine, because a fake
// clock runs it while it holds its lock.
func (w *idleWatch) arm(d time.Duration) {
	w.timer = w.clock.AfterFunc(d, func() { go w.check() })
}

func (w *idleWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	quiet := w.clock.Since(w.began) - time.Duration(w.last.Load())
	if quiet < w.limit {
		w.arm(w.limit - quiet)
		return
	}
	w.stopped = true
	w.onIdle()
}

// stop ends the watch. onIdle is not running any more when it returns, and will
// not run.
func (w *idleWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
