package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// outage is a rig whose proxies p0, p1, … work and fail as the test says, and so does the judge URL.
type outage struct {
	*rig
	// broken holds the names of those whose probes fail; judgeDown is for the judge URL.
	broken    map[string]bool
	judgeDown atomic.Bool
	causes    []int
}

func (o *outage) SetSharedCauses(urls int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.causes = append(o.causes, urls)
}

// ObserveTargetRefusal completes what the engine may look for in a Recorder.
func (o *outage) ObserveTargetRefusal(string, string) {}

// inOutage starts an engine over n proxies, all of which work, and lets them be probed.
func inOutage(t *testing.T, n int, change func(*fleet.Proxy), options func(*Options), f func(*outage)) {
	t.Helper()
	o := &outage{broken: map[string]bool{}}
	underTest(t, func(opts *Options) {
		opts.Metrics = o
		opts.JudgeURL = "https://judge.test/"
		opts.Fetch = func(context.Context, string) error {
			if o.judgeDown.Load() {
				return errors.New("down")
			}
			return nil
		}
		if options != nil {
			options(opts)
		}
	}, func(r *rig) {
		o.rig = r
		r.auto = func(t Target) Result {
			r.mu.Lock()
			defer r.mu.Unlock()
			if o.broken[t.Key.Name] {
				return bad(v1alpha1.ReasonTimeout)
			}
			return good(50 * time.Millisecond)
		}
		for i := range n {
			p := proxy(fmt.Sprintf("p%d", i))
			if change != nil {
				change(p)
			}
			r.store.Apply(p)
		}
		r.start()
		r.pass(40 * time.Second)
		f(o)
	})
}

// set breaks or mends the proxies numbered from up to to.
func (o *outage) set(from, to int, broken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := from; i < to; i++ {
		o.broken[fmt.Sprintf("p%d", i)] = broken
	}
}

// says sums up the verdicts of the proxies numbered from up to to.
func (o *outage) says(from, to int) string {
	o.t.Helper()
	counts := map[string]int{}
	for i := from; i < to; i++ {
		name := fmt.Sprintf("p%d", i)
		what := healthName(o.health(name))
		p := o.store.Get(keyOf(name))
		if p.Verdict.Held {
			what += " held"
		}
		if p.Withheld() == fleet.WithheldNot {
			what += " offered"
		}
		counts[what]++
	}
	var out []string
	for _, what := range []string{"Healthy offered", "Healthy held offered", "Unhealthy", "Unknown", "Unknown held"} {
		if n := counts[what]; n > 0 {
			out = append(out, fmt.Sprint(n, " ", what))
			delete(counts, what)
		}
	}
	if len(counts) > 0 {
		o.t.Fatalf("unexpected: %v", counts)
	}
	return strings.Join(out, ", ")
}

func (o *outage) want(from, to int, want string) {
	o.t.Helper()
	if got := o.says(from, to); got != want {
		o.t.Fatalf("p%d to p%d: %s; want %s", from, to-1, got, want)
	}
}

func (o *outage) replaceable(name string) string {
	yes, suspected := o.engine.Replaceable(keyOf(name), o.store.Get(keyOf(name)).Subject())
	return fmt.Sprint(yes, " ", suspected)
}

func TestAnOutageOfTheTargetLeavesVerdictsAsTheyAre(t *testing.T) {
	inOutage(t, 10, nil, nil, func(o *outage) {
		o.want(0, 10, "10 Healthy offered")
		o.set(0, 1, true)
		o.pass(time.Minute)
		o.want(0, 10, "9 Healthy offered, 1 Unhealthy")
		if got := o.replaceable("p0"); got != "true false" {
			t.Errorf("a dead one: replaceable %s", got)
		}
		o.heard()
		o.set(1, 9, true)
		o.judgeDown.Store(true)
		o.pass(10 * time.Minute)
		o.want(0, 1, "1 Unhealthy")
		o.want(1, 9, "8 Healthy held offered")
		o.want(9, 10, "1 Healthy offered")
		if got := o.replaceable("p0"); got != "false true" {
			t.Errorf("one that was dead before: replaceable %s", got)
		}
		if v := o.store.Get(keyOf("p1")).Verdict; v.Reason != v1alpha1.ReasonSharedCauseSuspected || v.Latency == 0 {
			t.Errorf("held: %+v", v)
		}
		if told := o.heard(); len(told) != 8 {
			t.Errorf("told %q, want each held one once", told)
		}
		// One of them is really dead, one more comes while nothing can be known.
		o.store.Apply(proxy("p10"))
		o.set(10, 11, true)
		o.pass(time.Minute)
		o.want(10, 11, "1 Unknown held")
		o.set(0, 11, false)
		o.set(1, 2, true)
		o.judgeDown.Store(false)
		o.pass(15 * time.Second)
		o.want(2, 11, "9 Healthy offered")
		o.want(1, 2, "1 Healthy offered")
		o.pass(time.Minute)
		o.want(0, 11, "10 Healthy offered, 1 Unhealthy")
		if fmt.Sprint(o.causes) != "[0 1 0]" && fmt.Sprint(o.causes) != "[1 0]" && fmt.Sprint(o.causes) != "[0 1 0 0]" {
			t.Errorf("urls that are held: %v", o.causes)
		}
	})
}

func TestFailuresThatOthersDoNotShareCount(t *testing.T) {
	for name, tc := range map[string]struct {
		judge func(*outage)
		fail  int
		want  string
	}{
		"the judge url works":        {func(*outage) {}, 10, "10 Unhealthy"},
		"half fail":                  {func(o *outage) { o.judgeDown.Store(true) }, 5, "5 Healthy offered, 5 Unhealthy"},
		"over half fail":             {func(o *outage) { o.judgeDown.Store(true) }, 6, "4 Healthy offered, 6 Healthy held offered"},
		"it never worked, so nobody": {nil, 10, "10 Unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			options := func(o *Options) {
				if tc.judge == nil {
					o.Fetch = func(context.Context, string) error { return errors.New("a wrong url") }
				}
			}
			inOutage(t, 10, nil, options, func(o *outage) {
				if tc.judge != nil {
					tc.judge(o)
				}
				o.set(0, tc.fail, true)
				o.pass(time.Minute)
				if got := o.says(0, 10); got != tc.want {
					t.Errorf("%s; want %s", got, tc.want)
				}
			})
		})
	}
	t.Run("four are too few", func(t *testing.T) {
		inOutage(t, 4, nil, nil, func(o *outage) {
			o.judgeDown.Store(true)
			o.set(0, 4, true)
			o.pass(time.Minute)
			o.want(0, 4, "4 Unhealthy")
			if got := o.replaceable("p0"); got != "true false" {
				t.Errorf("replaceable %s", got)
			}
		})
	})
	t.Run("without a judge url most dead ones count but are not replaced", func(t *testing.T) {
		inOutage(t, 10, nil, func(o *Options) { o.JudgeURL = "" }, func(o *outage) {
			o.set(0, 6, true)
			o.pass(time.Minute)
			o.want(0, 10, "4 Healthy offered, 6 Unhealthy")
			if got := o.replaceable("p0"); got != "false true" {
				t.Errorf("replaceable %s", got)
			}
			o.set(0, 1, false)
			o.pass(5 * time.Minute)
			if got := o.replaceable("p2"); got != "false true" {
				t.Errorf("half of them, after it were more: replaceable %s", got)
			}
			o.set(1, 2, false)
			o.pass(45 * time.Second)
			if got := o.replaceable("p2"); got != "false true" {
				t.Errorf("two fifths of them, just now: replaceable %s", got)
			}
			o.pass(3 * time.Minute)
			if got := o.replaceable("p2"); got != "true false" {
				t.Errorf("two fifths of them: replaceable %s", got)
			}
		})
	})
	t.Run("another url is another cause", func(t *testing.T) {
		n := 0
		other := func(p *fleet.Proxy) {
			if n++; n > 10 {
				p.Probe.URL = "https://other.test/"
			}
		}
		inOutage(t, 14, other, nil, func(o *outage) {
			o.judgeDown.Store(true)
			o.set(0, 14, true)
			o.pass(time.Minute)
			o.want(0, 10, "10 Healthy held offered")
			o.want(10, 14, "4 Unhealthy")
		})
	})
}

// With a threshold of one the first to fail are Unhealthy before most others have failed, and before the judge URL could
// be asked.
func TestVerdictsThatFellJustBeforeAreTakenBack(t *testing.T) {
	touchy := func(p *fleet.Proxy) { p.Probe.FailureThreshold = 1 }
	inOutage(t, 20, touchy, nil, func(o *outage) {
		o.set(0, 1, true)
		o.pass(time.Minute)
		o.want(0, 1, "1 Unhealthy")
		o.judgeDown.Store(true)
		o.set(1, 20, true)
		o.pass(30 * time.Second)
		o.want(0, 1, "1 Unhealthy")
		o.want(1, 20, "19 Healthy held offered")
	})
}

func TestHeldVerdictsOutliveARestart(t *testing.T) {
	held := func(p *fleet.Proxy) {
		p.Reported = fleet.Verdict{Subject: p.Subject(), Health: fleet.Healthy, Held: true, Reason: v1alpha1.ReasonSharedCauseSuspected, Latency: 50 * time.Millisecond}
	}
	o := &outage{broken: map[string]bool{}}
	o.judgeDown.Store(true)
	underTest(t, func(opts *Options) {
		opts.JudgeURL = "https://judge.test/"
		opts.Fetch = func(context.Context, string) error {
			if o.judgeDown.Load() {
				return errors.New("down")
			}
			return nil
		}
	}, func(r *rig) {
		o.rig = r
		r.auto = func(Target) Result {
			if o.judgeDown.Load() {
				return bad(v1alpha1.ReasonTimeout)
			}
			return good(50 * time.Millisecond)
		}
		for i := range 10 {
			r.store.Apply(proxy(fmt.Sprintf("p%d", i), held))
		}
		r.start()
		r.pass(5 * time.Minute)
		o.want(0, 10, "10 Healthy held offered")
		o.judgeDown.Store(false)
		r.pass(20 * time.Second)
		o.want(0, 10, "10 Healthy offered")
	})
}

// While the judge URL has not answered yet nothing becomes Unhealthy; once it has worked, it does at once.
func TestWhoIsGoneIsNotCounted(t *testing.T) {
	inOutage(t, 10, nil, func(o *Options) { o.JudgeURL = "" }, func(o *outage) {
		o.set(0, 6, true)
		o.pass(time.Minute)
		if got := o.replaceable("p0"); got != "false true" {
			t.Fatalf("replaceable %s", got)
		}
		o.store.Remove(keyOf("p5"), "uid-p5")
		o.store.Apply(proxy("p4", func(p *fleet.Proxy) { p.Probe.URL = "https://other.test/" }))
		o.pass(4 * time.Minute)
		if got := o.replaceable("p0"); got != "true false" {
			t.Errorf("four of eight: replaceable %s", got)
		}
		for i := range 10 {
			o.store.Remove(keyOf(fmt.Sprintf("p%d", i)), fmt.Sprintf("uid-p%d", i))
		}
		o.pass(time.Second)
		o.engine.mu.Lock()
		defer o.engine.mu.Unlock()
		if n := len(o.engine.causes); n != 0 {
			t.Errorf("%d causes are left", n)
		}
	})
}

// A fleet most of which has been dead for long neither hides another death nor keeps a recovery back, however often the
// judge URL fails for a moment; nor does its loss bring the dead back.
func TestTheLongDeadShareNoCause(t *testing.T) {
	slow := func(p *fleet.Proxy) { p.Probe.SuccessThreshold = 3 }
	n := 0
	var blinks atomic.Bool
	var down atomic.Bool
	options := func(o *Options) {
		o.Fetch = func(context.Context, string) error {
			if n++; down.Load() || blinks.Load() && n%3 == 0 {
				return errors.New("down")
			}
			return nil
		}
	}
	inOutage(t, 41, slow, options, func(o *outage) {
		o.set(0, 30, true)
		o.pass(20 * time.Minute)
		o.want(0, 41, "11 Healthy offered, 30 Unhealthy")
		blinks.Store(true)
		o.set(30, 31, true)
		o.set(0, 1, false)
		o.pass(3 * time.Minute)
		o.want(30, 31, "1 Unhealthy")
		o.want(0, 1, "1 Healthy offered")
		if got := o.replaceable("p1"); got != "true false" {
			t.Errorf("replaceable %s", got)
		}
		down.Store(true)
		o.set(31, 40, true)
		o.pass(5 * time.Minute)
		o.want(1, 31, "30 Unhealthy")
		o.want(31, 40, "9 Healthy held offered")
	})
}

// What died before the suspicion began stays dead, also when the judge URL had been lost for longer.
func TestOnlyTheRunThatLedToTheSuspicionIsTakenBack(t *testing.T) {
	inOutage(t, 20, nil, nil, func(o *outage) {
		o.judgeDown.Store(true)
		o.set(0, 9, true)
		o.pass(time.Hour)
		o.want(0, 20, "11 Healthy offered, 9 Unhealthy")
		o.set(9, 12, true)
		o.pass(5 * time.Minute)
		o.want(0, 9, "9 Unhealthy")
		o.want(9, 12, "3 Healthy held offered")
	})
}

func TestOtherIntervalsAreOtherCauses(t *testing.T) {
	n := 0
	rare := func(p *fleet.Proxy) {
		if n++; n > 10 {
			p.Probe.Interval = 24 * time.Hour
		}
	}
	inOutage(t, 20, rare, nil, func(o *outage) {
		o.judgeDown.Store(true)
		o.set(0, 20, true)
		o.pass(10 * time.Minute)
		o.want(0, 10, "10 Healthy held offered")
		o.want(10, 20, "10 Healthy offered")
		// The natural reaction.
		for i := range 10 {
			o.store.Apply(proxy(fmt.Sprintf("p%d", i), func(p *fleet.Proxy) { p.Probe.URL = "https://other.test/" }))
		}
		o.set(0, 10, false)
		o.pass(time.Minute)
		o.want(0, 10, "10 Healthy offered")
		if last := o.causes[len(o.causes)-1]; last != 0 {
			t.Errorf("%d urls are still said to be held", last)
		}
	})
}
