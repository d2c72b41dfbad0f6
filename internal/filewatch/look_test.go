package filewatch

import (
	"errors"
	"testing"
	"time"
)

func TestNothingIsToldBeforeItSettles(t *testing.T) {
	t.Parallel()
	var now time.Time
	l := look{settle: time.Second, told: sightOf([]byte("known"), nil)}
	for i, step := range []struct {
		reason  string
		after   time.Duration
		content string
		err     error
		wait    time.Duration
		tell    bool
	}{
		{"what is known", 0, "known", nil, 0, false},
		{"a first part", time.Minute, "one", nil, time.Second, false},
		{"more of it", 900 * time.Millisecond, "one two", nil, time.Second, false},
		{"still the same", 400 * time.Millisecond, "one two", nil, 600 * time.Millisecond, false},
		{"removed", 500 * time.Millisecond, "", errors.New("gone"), time.Second, false},
		{"back as it was known", 10 * time.Millisecond, "known", nil, 0, false},
		{"another try", time.Hour, "one two", nil, time.Second, false},
		{"settled", time.Second, "one two", nil, 0, true},
		{"told once", time.Hour, "one two", nil, 0, false},
		{"broken", time.Hour, "", errors.New("gone"), time.Second, false},
		{"for long", time.Second, "", errors.New("gone"), 0, true},
		{"told once, too", time.Second, "", errors.New("gone"), 0, false},
		{"back", time.Second, "one two", nil, time.Second, false},
		{"which is news", time.Second, "one two", nil, 0, true},
	} {
		now = now.Add(step.after)
		if wait, tell := l.at(sightOf([]byte(step.content), step.err), now); wait != step.wait || tell != step.tell {
			t.Errorf("step %d, %s: wait %s, tell %v; want %s, %v", i, step.reason, wait, tell, step.wait, step.tell)
		}
	}
}
