package health

import (
	"bytes"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// never is a time at which nothing is due.
const never time.Duration = -1

// state is what the engine keeps for one probeable Proxy. e.mu guards it.
type state struct {
	// proxy is the latest snapshot. All of the same subject.
	proxy *fleet.Proxy
	judge judge
	// next is when the next probe is due, never while one is under way or once the state is dropped.
	next time.Duration
	// began is when the last probe began, never before the first.
	began time.Duration
	// lapseAt is when a seeded verdict ends unless confirmed, counted from seededAt.
	seededAt, lapseAt time.Duration
	// cause is what the latest result was counted in, nil before the first about the present URL. badSince is when the
	// present run of failures began, never while there is none; dead: the judge URL has worked since.
	cause    *cause
	badSince time.Duration
	dead     bool
	// fellAt is when the verdict last went from Healthy to Unhealthy, never before that.
	fellAt time.Duration
	// alone counts the latest failures in a row that nothing but the proxy itself could be the cause of.
	alone int
	// rotatedAt is when the credentials that the proxy is being rotated to were first seen.
	rotatedAt time.Duration
	// flight is the probe whose result is awaited. Results of others are dropped.
	flight *job
}

// takeIn brings the states of keys up to date with the store. atStart allows verdicts to be seeded from the status:
// later, the status may speak of a subject that the engine has seen replaced.
func (e *Engine) takeIn(keys []types.NamespacedName, atStart bool) {
	var told []types.NamespacedName
	e.mu.Lock()
	for _, key := range keys {
		if e.takeInOne(key, atStart) {
			told = append(told, key)
		}
	}
	e.synced = true
	e.lapses.compact(len(e.states))
	for _, q := range e.due {
		q.compact(len(e.states))
	}
	e.mu.Unlock()
	e.tell(told)
}

// takeInOne returns whether the status shows a verdict that does not stand.
func (e *Engine) takeInOne(key types.NamespacedName, atStart bool) (tell bool) {
	p := e.opts.Store.Get(key)
	st := e.states[key]
	if p == nil || !p.Probeable() {
		e.drop(key, st)
		return p != nil && shown(p)
	}
	if st != nil && st.proxy.UID != p.UID {
		e.drop(key, st)
		st = nil
	}
	// The store knowing another health than the engine means that it has seen another subject in between and come back.
	if st != nil && st.judge.verdict.Subject == p.Subject() && st.judge.verdict.Health == p.Verdict.Health {
		e.refresh(st, p)
		return false
	}
	if st != nil {
		e.retire(st)
	}
	st = &state{proxy: p, judge: newJudge(p.Subject()), began: never, fellAt: never, rotatedAt: e.now()}
	e.states[key] = st
	if atStart && p.Reported.Health != fleet.HealthUnknown && p.Reported.Subject == p.Subject() {
		e.seed(st)
		return false
	}
	e.schedule(st, e.now())
	return shown(p)
}

// shown reports whether the status of p says anything of its health.
func shown(p *fleet.Proxy) bool { return p.Reported.Health != fleet.HealthUnknown || p.Reported.Held }

// seed takes over the verdict that the status shows. The first probe is spread over the interval: the whole fleet is
// seeded at once.
func (e *Engine) seed(st *state) {
	v := st.proxy.Reported
	if now := e.opts.Clock.Now(); v.At.After(now) {
		// Written under another clock; kept, it would hold reports back.
		v.At = now
	}
	if v.Held {
		e.referee.worked = e.opts.JudgeURL != "" // otherwise it would not have been held
	}
	st.judge = seededJudge(v)
	st.seededAt = e.now()
	e.scheduleLapse(st)
	e.publish(st)
	span := interval(st.proxy)
	if e.rulesFor(st.proxy).failureThreshold == 1 {
		// Otherwise the last to be probed would lapse before they are.
		span /= 2
	}
	if st.proxy.Credentials != nil {
		// The status does not say which ones the verdict was about.
		span = min(span, seededSpan)
	}
	e.schedule(st, st.seededAt+e.fraction(span))
}

// refresh goes over to the snapshot p of the same subject. Changes of the health check take effect at once.
func (e *Engine) refresh(st *state, p *fleet.Proxy) {
	old := st.proxy
	if !sameNext(old, p) && p.Next != nil {
		st.rotatedAt = e.now()
		if st.flight == nil {
			e.schedule(st, e.now()+e.fraction(rotationProbe)) // one Secret may be that of the whole fleet
		}
	}
	if causeOf(old) != causeOf(p) {
		e.uncount(st)
	}
	st.proxy = p
	now := e.now()
	switch {
	case !sameAim(old.Probe, p.Probe):
		// What was counted and what is under way is about another target. The verdict stands until there is a full
		// run about the new one.
		st.judge.oks, st.judge.fails, st.flight = 0, 0, nil
		e.schedule(st, now)
	case interval(old) != interval(p) && st.flight == nil:
		if st.began == never {
			e.schedule(st, min(st.next, now+e.fraction(interval(p))))
		} else {
			e.schedule(st, max(now, st.began+e.delay(st)))
		}
	}
	if st.judge.seeded && (interval(old) != interval(p) || old.Probe.FailureThreshold != p.Probe.FailureThreshold) {
		e.scheduleLapse(st)
	}
}

// drop forgets the state of a Proxy that is gone or has nothing to probe.
func (e *Engine) drop(key types.NamespacedName, st *state) {
	if st == nil {
		return
	}
	e.retire(st)
	delete(e.states, key)
	e.opts.Metrics.Forget(key.Namespace, key.Name)
}

// retire makes every queue entry and every probe under way of st void.
func (e *Engine) retire(st *state) {
	e.uncount(st)
	st.next, st.flight, st.judge.seeded = never, nil, false
}

func sameAim(a, b v1alpha1.Probe) bool {
	return a.URL == b.URL && a.ExpectedStatus == b.ExpectedStatus && a.InsecureSkipVerify == b.InsecureSkipVerify &&
		bytes.Equal(a.CABundle, b.CABundle)
}
