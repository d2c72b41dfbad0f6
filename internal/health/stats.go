package health

import "time"

// LaneStats is how busy one of the lanes is: fast for targets that were not failing, slow for those that were and for probes
// that take long.
type LaneStats struct {
	Name string
	// InFlight are the probes under way, of at most Limit.
	InFlight, Limit int
	// Overdue are the probes that are due but have not begun, Delay is how late the first of them is; 0 when none is.
	Overdue int
	Delay   time.Duration
}

// Lanes returns how busy the lanes are, fast first. It takes time in proportion to the fleet, with the engine's lock held:
// 10,000 proxies are a fraction of a millisecond.
func (e *Engine) Lanes() []LaneStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []LaneStats{
		{Name: "fast", InFlight: e.lanes.inUse[fast], Limit: e.lanes.fastCap},
		{Name: "slow", InFlight: e.lanes.inUse[slow], Limit: e.lanes.slowCap},
	}
	now := e.now()
	for _, st := range e.states {
		if st.next == never || st.next > now {
			continue
		}
		lane := &out[fast]
		if st.judge.failing() {
			lane = &out[slow]
		}
		lane.Overdue++
		lane.Delay = max(lane.Delay, now-st.next)
	}
	return out
}

// JudgeUp reports whether the judge URL was answered when it was last fetched. known is false before the first fetch, and
// without a judge URL.
func (e *Engine) JudgeUp() (up, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.referee
	return r.lastWorked > r.lastFailed, r.lastWorked != never || r.lastFailed != never
}
