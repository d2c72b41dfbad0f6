package health

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

type observation struct {
	Result
	at time.Time
}

// modelHealth replays the whole history: the health is that of the last run of equal results that was long enough.
func modelHealth(seed fleet.Health, history []observation, by rules) fleet.Health {
	health := seed
	for i := range history {
		run := 0
		for j := i; j >= 0 && history[j].OK == history[i].OK; j-- {
			run++
		}
		if history[i].OK && run >= by.successThreshold {
			health = fleet.Healthy
		}
		if !history[i].OK && run >= by.failureThreshold {
			health = fleet.Unhealthy
		}
	}
	return health
}

// modelReports says whether the last observation is worth a report, given the last report and what was observed since.
func modelReports(last fleet.Verdict, next fleet.Health, since []observation, by rules) bool {
	o := since[len(since)-1]
	if next != last.Health {
		return true
	}
	if o.at.Sub(last.At) < by.minReport {
		return false
	}
	if next == fleet.Healthy && o.OK {
		lower, upper := last.Latency-20*time.Millisecond, last.Latency+20*time.Millisecond
		lower, upper = min(lower, last.Latency/2), max(upper, last.Latency+last.Latency/2)
		slower, faster := len(since) >= 3, len(since) >= 3
		for _, o := range since[max(0, len(since)-3):] {
			slower, faster = slower && o.OK && o.Latency > upper, faster && o.OK && o.Latency < lower
		}
		return (slower || faster) && o.at.Sub(last.At) >= 10*by.minReport
	}
	return next == fleet.Unhealthy && !o.OK && o.Reason != last.Reason
}

func TestJudgeFollowsModel(t *testing.T) {
	reasons := []string{v1alpha1.ReasonTimeout, v1alpha1.ReasonDialFailed, v1alpha1.ReasonTLSFailed}
	rapid.Check(t, func(t *rapid.T) {
		by := rules{
			successThreshold: rapid.IntRange(1, 4).Draw(t, "successThreshold"),
			failureThreshold: rapid.IntRange(1, 4).Draw(t, "failureThreshold"),
			minReport:        time.Minute,
		}
		now := time.Unix(1_800_000_000, 0)
		subject := fleet.Subject{UID: "u"}
		j := newJudge(subject)
		seed := fleet.HealthUnknown
		if rapid.Bool().Draw(t, "seeded") {
			seed = rapid.SampledFrom([]fleet.Health{fleet.Healthy, fleet.Unhealthy}).Draw(t, "seed")
			j = seededJudge(fleet.Verdict{Subject: subject, Health: seed, Reason: "Seed", At: now})
		}
		var history, since []observation
		last := j.verdict
		confirmed := seed == fleet.HealthUnknown
		for range rapid.IntRange(1, 60).Draw(t, "probes") {
			now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "pause")) * time.Second)
			o := observation{at: now}
			if o.OK = rapid.Bool().Draw(t, "ok"); o.OK {
				o.Reason = v1alpha1.ReasonProbeSucceeded
			} else {
				o.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
			}
			o.Latency = time.Duration(rapid.IntRange(0, 200).Draw(t, "latency")) * time.Millisecond
			history, since = append(history, o), append(since, o)

			want := modelHealth(seed, history, by)
			confirmed = confirmed || o.OK == (last.Health == fleet.Healthy) || want != last.Health
			wantReport := modelReports(last, want, since, by)
			if got := j.observe(o.Result, now, by); got != wantReport {
				t.Fatalf("report is %v, want %v, after %+v", got, wantReport, history)
			}
			if j.verdict.Health != want || j.verdict.Subject != subject {
				t.Fatalf("verdict %+v, want health %v, after %+v", j.verdict, want, history)
			}
			if wantReport {
				if j.verdict.At != now || j.verdict.Reason != o.Reason || (o.OK && j.verdict.Latency != o.Latency) {
					t.Fatalf("reported %+v of %+v", j.verdict, o)
				}
				last, since = j.verdict, nil
			} else if j.verdict != last {
				t.Fatalf("verdict changed without a report: %+v", j.verdict)
			}
			if j.seeded == confirmed {
				t.Fatalf("seeded %v, confirmed %v, after %+v", j.seeded, confirmed, history)
			}
		}
		if lapsed := j.lapse(now); lapsed == confirmed || (lapsed && j.verdict.Health != fleet.HealthUnknown) {
			t.Fatalf("lapse says %v, confirmed %v, verdict %+v", lapsed, confirmed, j.verdict)
		}
	})
}

func TestBackoff(t *testing.T) {
	by := rules{successThreshold: 1, failureThreshold: 3, minReport: time.Minute}
	j := newJudge(fleet.Subject{})
	now := time.Unix(1_800_000_000, 0)
	for i, want := range []int{1, 1, 1, 2, 4, 4, 4} {
		j.observe(Result{Reason: v1alpha1.ReasonTimeout}, now, by)
		if got := j.backoff(by); got != want {
			t.Errorf("after %d failures the interval is stretched by %d, want %d", i+1, got, want)
		}
	}
	j.observe(Result{OK: true}, now, by)
	if j.backoff(by) != 1 || j.failing() {
		t.Error("still backing off after a success")
	}
}
