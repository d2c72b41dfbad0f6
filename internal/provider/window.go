package provider

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// Window bounds how long after RequestedAt a Create may be sent and how long after it may still become visible.
type Window struct {
	Clock clock.PassiveClock
	// CallTimeout is the longest that one backend call can live.
	CallTimeout time.Duration
	// Visibility is the backend's own bound: how long an accepted creation may stay invisible.
	Visibility time.Duration
	// Skew is how far the clocks of two operator processes may be apart.
	Skew time.Duration
}

// CheckSend returns ErrTransient with reason WindowClosed once a Create must not be sent under ref any more. Call it
// right before sending: a process that was paused since it wrote the record must not wake up and create.
func (w Window) CheckSend(providerName string, ref Ref) error {
	if now := w.Clock.Now(); !now.Before(ref.RequestedAt.Add(w.CallTimeout)) {
		return Wrap(ErrTransient, "create", providerName, ref.ID,
			fmt.Errorf("the request on record is %s old, at most %s is allowed", now.Sub(ref.RequestedAt).Round(time.Second), w.CallTimeout)).
			WithReason(ReasonWindowClosed)
	}
	return nil
}

// Deadline returns when a Create under ref must have ended.
func (w Window) Deadline(ref Ref) time.Time { return ref.RequestedAt.Add(w.CallTimeout) }

// Passed reports whether nothing that was ever sent under ref can still become visible. Only then is "not there" a proof
// of absence, unless the backend remembers how the creation ended.
func (w Window) Passed(ref Ref) bool {
	return w.Clock.Now().After(ref.RequestedAt.Add(w.CallTimeout + w.Visibility + w.Skew))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
