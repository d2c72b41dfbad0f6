package export

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// quiet is for how long nothing more is said of failures to send after one was told.
const quiet = time.Minute

// failures tells now and then that spans do not arrive.
type failures struct {
	log   logr.Logger
	clock clock.PassiveClock

	mu     sync.Mutex
	until  time.Time
	untold int
}

func newFailures(log logr.Logger) *failures { return &failures{log: log, clock: clock.RealClock{}} }

// Handle implements otel.ErrorHandler. The error's text is not shown: it quotes the endpoint, which may hold a password, and
// what the collector answers.
func (f *failures) Handle(error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if now.Before(f.until) {
		f.untold++
		return
	}
	f.log.Info("tracing: spans are not taken by the collector", "more", f.untold)
	f.until, f.untold = now.Add(quiet), 0
}
