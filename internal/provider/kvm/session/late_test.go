package session_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

// tardy is a context whose time is over and whose timer has not said so yet, as right after a process was paused.
type tardy struct{ context.Context }

func (tardy) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

// What is sent late may take effect when nobody reckons with it any more.
func TestNothingIsSentLate(t *testing.T) {
	bubble(t, "", nil, func(t *testing.T, r *rig) {
		if _, err := lookup(t.Context(), r.Host, "x"); err == nil {
			t.Fatal("the daemon knows a domain that nobody has made")
		}
		before := len(r.server.Calls())
		if _, err := lookup(tardy{t.Context()}, r.Host, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that is late: %v", err)
		}
		if n := len(r.server.Calls()) - before; n != 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}
