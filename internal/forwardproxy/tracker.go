package forwardproxy

import (
	"context"
	"sync"
)

// tracker counts what is alive. Unlike a sync.WaitGroup it may grow while
// somebody waits, has a cap, and its wait can be given up. Zero is ready.
type tracker struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n falls to 0; replaced when it leaves it
}

// add counts one more and reports whether the cap (0 = none) allowed it.
func (t *tracker) add(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if limit > 0 && t.n >= limit {
		return false
	}
	if t.n == 0 {
		t.zero = make(chan struct{})
	}
	t.n++
	return true
}

func (t *tracker) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 {
		close(t.zero)
	}
}

// wait blocks until nothing is alive or ctx ends, and returns ctx's error then.
func (t *tracker) wait(ctx context.Context) error {
	for {
		t.mu.Lock()
		n, zero := t.n, t.zero
		t.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-zero:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
