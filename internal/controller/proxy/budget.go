package proxy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// placeMemory is how long a place that was taken counts although the fleet does not show it: far longer than a watch may
// lag, but not for ever, for somebody may have wiped the status.
const placeMemory = 10 * time.Minute

// Share is a number, or a percentage of a whole.
type Share struct {
	n       int
	percent bool
}

// ParseShare reads "3" or "10%". Numbers are at least 1, percentages 1 to 100.
func ParseShare(text string) (Share, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || (percent && n > 100) {
		return Share{}, fmt.Errorf("%q: want a number from 1, or a percentage from 1%% to 100%%", text)
	}
	return Share{n: n, percent: percent}, nil
}

// Of returns the share of whole, rounded down, but at least 1.
func (s Share) Of(whole int) int {
	if !s.percent {
		return s.n
	}
	return max(1, int(math.Floor(float64(whole)*float64(s.n)/100)))
}

// takePlace takes one of the provider's places for replacements, if one is free. Passes that run side by side see each
// other at once, long before the fleet shows their writes.
func (ps *pass) takePlace() bool {
	if ps.p.Status.ReplacingSince != nil {
		return true
	}
	count := ps.r.Fleet.Count(ps.handle.Name)
	limit := ps.r.MaxReplacing.Of(count.Recorded)
	if !ps.r.memory.takePlace(ps.key, ps.handle.Name, limit, count.Replacing, ps.r.Fleet.Replacing, ps.r.Clock.Now()) {
		return false
	}
	ps.p.Status.ReplacingSince = ptr.To(ps.now())
	return true
}

// noPlaceFree reports whether takePlace would fail, as far as can be told without taking one.
func (ps *pass) noPlaceFree() bool {
	count := ps.r.Fleet.Count(ps.handle.Name)
	return ps.p.Status.ReplacingSince == nil && count.Replacing >= ps.r.MaxReplacing.Of(count.Recorded)
}

// stillStopped reports whether this is a stopped instance that waits for its turn, that the last list still shows as such,
// and that would go on waiting: asking for it each time would be thousands of calls when a backend has stopped everything.
func (ps *pass) stillStopped() bool {
	ref, ok := ps.ref()
	if !ok || !ps.r.memory.waitsStopped(ps.key, ref.Attempt) || !ps.noPlaceFree() {
		return false
	}
	inst, ok := ps.r.Observations.Seen(ps.p.Spec.Provider, ref.UID, ref.ID)
	dead := inst.State == provider.StateStopped || inst.State == provider.StateTerminated || inst.State == provider.StateFailed
	return ok && dead && inst.Marks.Attempt == ref.Attempt
}

// leavePlace gives back a place that was not needed, or is needed no longer.
func (ps *pass) leavePlace() {
	ps.r.memory.with(ps.key, func(e *entry) { e.place = "" })
}
