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
		r, rotated := e.probe(ctx, j)
		e.land(ctx, j, r, rotated)
	})
	return true
}

// land takes in the result of j, and whether it came about with the credentials that the proxy is being rotated to.
func (e *Engine) land(ctx context.Context, j *job, r Result, rotated bool) {
	e.mu.Lock()
	e.lanes.leave(j)
	var told []types.NamespacedName
	// After the end of ctx another leader may own the verdicts.
	if st := j.st; st.flight == j && ctx.Err() == nil {
		st.flight = nil
		if r.Inconclusive {
			e.opts.Logger.V(1).Info("Probe inconclusive", "namespace", j.proxy.Key.Namespace, "proxy", j.proxy.Key.Name, "message", r.Message)
			e.schedule(st, max(e.now(), st.began+e.delay(st)))
		} else if e.rotate(st, j, r, rotated) {
			told = e.record(st, r)
			e.schedule(st, max(e.now(), st.began+e.delay(st)))
		} else {
			e.schedule(st, e.now()+e.opts.Tick)
		}
		e.wakeFor(st.next)
	} else {
		e.wakeFor(never)
	}
	e.mu.Unlock()
	e.tell(told)
}

// record counts r and, where that changes something, publishes the verdict.
func (e *Engine) record(st *state, r Result) (told []types.NamespacedName) {
	key := st.proxy.Key
	e.opts.Metrics.ObserveProbe(key.Namespace, key.Name, r.Latency, r.OK, r.Reason)
	if c, ok := e.opts.Metrics.(TargetRefusalRecorder); ok && r.TargetRefused {
		c.ObserveTargetRefusal(key.Namespace, key.Name)
	}
	e.count(st, r.OK)
	told = e.weigh(st.cause, e.now())
	e.countAlone(st, r.OK)
	before := st.judge.verdict
	if !st.judge.observe(r, e.opts.Clock.Now(), e.rulesIn(st)) {
		return told
	}
	if before.Health == fleet.Healthy && st.judge.verdict.Health == fleet.Unhealthy {
		st.fellAt = e.now()
	}
	if !e.publish(st) {
		return told
	}
	if v := st.judge.verdict; v.Health != before.Health || v.Held != before.Held {
		e.opts.Logger.Info("Health changed", "namespace", key.Namespace, "proxy", key.Name,
			"healthy", v.Health == fleet.Healthy, "reason", v.Reason, "message", v.Message)
	}
	return append(told, key)
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
