package health

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// launch begins the probe of st that is due, false when its lane is full. Nothing is ever dropped: what finds no place
// stays due, the longest waiting first.
func (e *Engine) launch(ctx context.Context, st *state, lane laneName, now time.Duration) bool {
	j := &job{st: st, proxy: st.proxy, due: st.next, began: now, lane: lane}
	if !e.lanes.enter(j) {
		return false
	}
	st.flight, st.began, st.next = j, now, never
	e.jobs.Go(func() {
		t := TargetOf(j.proxy)
		t.Due = e.base.Add(j.due)
		e.land(ctx, j, e.opts.Prober.Probe(ctx, t))
	})
	return true
}

// land takes in the result of j.
func (e *Engine) land(ctx context.Context, j *job, r Result) {
	e.mu.Lock()
	e.lanes.leave(j)
	tell := false
	// After the end of ctx another leader may own the verdicts.
	if st := j.st; st.flight == j && ctx.Err() == nil {
		st.flight = nil
		if r.Inconclusive {
			e.opts.Logger.V(1).Info("Probe inconclusive", "namespace", j.proxy.Key.Namespace, "proxy", j.proxy.Key.Name, "message", r.Message)
		} else {
			tell = e.record(st, r)
		}
		e.schedule(st, max(e.now(), st.began+e.delay(st)))
		e.wakeFor(st.next)
	} else {
		e.wakeFor(never)
	}
	e.mu.Unlock()
	if tell {
		e.tell([]types.NamespacedName{j.proxy.Key})
	}
}

// record counts r and, where that changes something, publishes the verdict.
func (e *Engine) record(st *state, r Result) (tell bool) {
	key := st.proxy.Key
	e.opts.Metrics.ObserveProbe(key.Namespace, key.Name, r.Latency, r.OK, r.Reason)
	if c, ok := e.opts.Metrics.(TargetRefusalRecorder); ok && r.TargetRefused {
		c.ObserveTargetRefusal(key.Namespace, key.Name)
	}
	before := st.judge.verdict.Health
	if !st.judge.observe(r, e.opts.Clock.Now(), e.rulesFor(st.proxy)) || !e.publish(st) {
		return false
	}
	if v := st.judge.verdict; v.Health != before {
		e.opts.Logger.Info("Health changed", "namespace", key.Namespace, "proxy", key.Name,
			"healthy", v.Health == fleet.Healthy, "reason", v.Reason, "message", v.Message)
	}
	return true
}

// wakeFor makes the loop look now if it would otherwise look too late: for a probe that is due at the given time, or
// because the place just given back is waited for.
func (e *Engine) wakeFor(at time.Duration) {
	if (at == never || at >= e.nextLook) && !e.blocked[fast] && !e.blocked[slow] {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
