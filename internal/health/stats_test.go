package health

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func TestLanes(t *testing.T) {
	change := func(o *Options) { o.Workers, o.SlowWorkers = 2, 4 }
	underTest(t, change, func(r *rig) {
		want := func(when string, fastLane, slowLane LaneStats) {
			t.Helper()
			fastLane.Name, fastLane.Limit, slowLane.Name, slowLane.Limit = "fast", 2, "slow", 4
			if got := r.engine.Lanes(); len(got) != 2 || got[0] != fastLane || got[1] != slowLane {
				t.Errorf("%s: %+v, want %+v and %+v", when, got, fastLane, slowLane)
			}
		}
		r.start()
		want("nothing to probe", LaneStats{}, LaneStats{})
		for _, name := range []string{"a", "b", "c"} {
			r.store.Apply(proxy(name))
		}
		synctest.Wait()
		want("three at once", LaneStats{InFlight: 2, Overdue: 1}, LaneStats{})
		r.clock.Step(20 * time.Millisecond) // below what makes one yield
		want("a little later", LaneStats{InFlight: 2, Overdue: 1, Delay: 20 * time.Millisecond}, LaneStats{})
		r.pass(1200 * time.Millisecond)
		want("the old have moved on", LaneStats{}, LaneStats{InFlight: 3})
		for _, c := range r.takeAll() {
			r.end(c, bad(v1alpha1.ReasonTimeout))
		}
		want("all have failed", LaneStats{}, LaneStats{})
		for _, name := range []string{"d", "e", "f", "g"} { // they take the lane's places
			r.store.Apply(proxy(name))
			r.pass(1100 * time.Millisecond)
		}
		r.pass(time.Minute)
		if got := r.engine.Lanes()[1]; got.InFlight != 4 || got.Overdue != 3 || got.Delay < 10*time.Second {
			t.Errorf("those that fail find no place: %+v", got)
		}
	})
}

func TestJudgeUp(t *testing.T) {
	var err error
	works := func(o *Options) {
		o.JudgeURL = "http://judge.example/"
		o.Fetch = func(context.Context, string) error { return err }
	}
	underTest(t, works, func(r *rig) {
		if _, known := r.engine.JudgeUp(); known {
			t.Error("known before the first fetch")
		}
		r.start()
		if up, known := r.engine.JudgeUp(); !up || !known {
			t.Errorf("answered: %t, %t", up, known)
		}
		err = errors.New("no answer")
		r.pass(refereeInterval + time.Second)
		if up, known := r.engine.JudgeUp(); up || !known {
			t.Errorf("not answered: %t, %t", up, known)
		}
	})
	underTest(t, nil, func(r *rig) {
		r.start()
		r.pass(time.Minute)
		if _, known := r.engine.JudgeUp(); known {
			t.Error("known without a judge URL")
		}
	})
}
