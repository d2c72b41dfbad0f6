package health

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	messageNotProbed = "not probed often enough for a verdict"
	messageLapsed    = "the verdict from before the operator's start was not confirmed in time"
)

const (
	// minLatencyChange is the smallest change of latency worth a report.
	minLatencyChange = 20 * time.Millisecond
	// latencyRun is for how many probes in a row a latency has to differ, to the same side: a machine that is busy for a moment
	// makes thousands of probes slow once.
	latencyRun = 3
	// latencyReports is by how much longer than other reports those wait that tell of nothing but another latency.
	latencyReports = 10
)

// rules are what a judge goes by; they may change between any two results.
type rules struct {
	successThreshold int
	failureThreshold int
	// minReport is the least time between two reports that are not changes of health.
	minReport time.Duration
	// held: nothing becomes Unhealthy now; confirmed: what would have is marked as held.
	held, confirmed bool
}

// judge is the verdict about one subject and what it takes to change it. It does no I/O and knows no clock.
//
//	            oks ≥ successThreshold
//	Unknown ────────────────────────────► Healthy
//	 ▲   │                                │  ▲
//	 │   │ fails ≥ failureThreshold       ▼  │
//	 │   └────────────────────────────► Unhealthy
//	 └── a seeded verdict that no result confirmed in time
type judge struct {
	// verdict is the last one reported; its Health is always the current one, as each change is reported at once.
	verdict fleet.Verdict
	// oks and fails count the results since the last of the other kind; one of them is 0.
	oks, fails int
	// moved counts the latest probes in a row that were much slower than the verdict says; below 0, faster.
	moved int
	// before is the verdict that the present one came after, where that is held or Unhealthy.
	before fleet.Verdict
	// seeded: the verdict was taken over and no result has agreed with it yet.
	seeded bool
}

// newJudge starts without an opinion.
func newJudge(subject fleet.Subject) judge {
	return judge{verdict: fleet.Verdict{Subject: subject, Reason: v1alpha1.ReasonNotProbed, Message: messageNotProbed}}
}

// seededJudge takes v over, whose Health is not Unknown, with all counts at zero.
func seededJudge(v fleet.Verdict) judge {
	j := judge{verdict: v, before: v, seeded: true}
	if v.Held {
		j.before.Held, j.before.Reason, j.before.Message = false, v1alpha1.ReasonProbeSucceeded, ""
	}
	return j
}

// observe takes in the result of a probe that ended at the given time and says whether the verdict is to be reported.
func (j *judge) observe(r Result, at time.Time, by rules) (report bool) {
	health := j.verdict.Health
	j.weigh(r)
	if r.OK {
		j.oks, j.fails = j.oks+1, 0
		if j.oks >= by.successThreshold {
			health = fleet.Healthy
		}
	} else {
		j.oks, j.fails = 0, j.fails+1
		if by.confirmed {
			return j.hold(by, at, false)
		}
		if by.held && j.verdict.Health != fleet.Unhealthy {
			return false
		}
		if j.fails >= by.failureThreshold {
			health = fleet.Unhealthy
		}
	}
	if r.OK == (j.verdict.Health == fleet.Healthy) {
		j.seeded = false
	}
	switch changes := health != j.verdict.Health; {
	case j.verdict.Held:
		if !changes && (!r.OK || health != fleet.Healthy) {
			return false
		}
	case changes:
		j.before = j.verdict
	case !j.refreshes(r, at, by):
		return false
	}
	j.seeded, j.verdict.Held = false, false
	j.verdict.Health, j.verdict.Reason, j.verdict.Message, j.verdict.At = health, r.Reason, r.Message, at
	j.moved = 0
	if r.OK {
		j.verdict.Latency = r.Latency
	}
	return true
}

// weigh compares the latency of r with that of the verdict.
func (j *judge) weigh(r Result) {
	change := r.Latency - j.verdict.Latency
	switch {
	case !r.OK || change.Abs() <= max(minLatencyChange, j.verdict.Latency/2):
		j.moved = 0
	case change > 0:
		j.moved = max(j.moved, 0) + 1
	default:
		j.moved = min(j.moved, 0) - 1
	}
}

// refreshes reports whether r, which changes nothing about the health, makes the last report too stale to stand: the
// latency of a healthy proxy is another for good, or an unhealthy one now fails for another reason.
func (j *judge) refreshes(r Result, at time.Time, by rules) bool {
	since := at.Sub(j.verdict.At)
	if since >= 0 && since < by.minReport {
		return false
	}
	switch {
	case j.verdict.Health == fleet.Healthy && r.OK:
		return max(j.moved, -j.moved) >= latencyRun && (since < 0 || since >= latencyReports*by.minReport)
	case j.verdict.Health == fleet.Unhealthy && !r.OK:
		return r.Reason != j.verdict.Reason
	}
	return false
}

// lapse withdraws a seeded verdict that nothing confirmed. It says whether there was one.
func (j *judge) lapse(at time.Time) (report bool) {
	if !j.seeded {
		return false
	}
	j.seeded, j.verdict.Held = false, false
	j.verdict.Health, j.verdict.Reason, j.verdict.Message = fleet.HealthUnknown, v1alpha1.ReasonNotProbed, messageLapsed
	j.verdict.At = at
	return true
}

// failing reports whether the last that is known of the subject is a failure.
func (j *judge) failing() bool {
	return j.fails > 0 || (j.oks == 0 && j.verdict.Health == fleet.Unhealthy)
}

// backoff is by how much the interval is stretched: not before the verdict is Unhealthy, so that neither a booting
// proxy nor the withdrawal of a dying one waits longer than the spec says; then 1, 2, 4.
func (j *judge) backoff(by rules) int {
	if j.verdict.Health != fleet.Unhealthy || j.fails <= by.failureThreshold {
		return 1
	}
	return min(1<<min(j.fails-by.failureThreshold, 2), maxBackoff)
}
