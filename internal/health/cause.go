package health

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// minFailing is how many must fail at one time before their failures may have one cause.
const minFailing = 5

// confirmations is how often in a row the judge URL must fail: one lost packet is no outage.
const confirmations = 2

// messageHeld never names what is held: it must not change while the cause lasts.
const messageHeld = "most proxies that probe the same url fail and the judge url does too, so this says nothing about the proxy: " +
	"what was known of it before stands until that ends"

// causeKey is what probes have in common whose failures may have one cause. Those with another interval are others: what
// they last found may be of long ago.
type causeKey struct {
	url      string
	interval time.Duration
}

func causeOf(p *fleet.Proxy) causeKey { return causeKey{p.Probe.URL, interval(p)} }

// cause is a probe URL whose failures may all come from the same fault: its target's, or the operator's own network.
//
//	             over half, and at least 5, fail          the judge url fails, too, twice
//	not suspected ───────────────────────► suspected ───────────────────────► confirmed
//	      ▲                                    │ it works: not held                │
//	      └───── two fifths or fewer fail ─────┴───────────────────────────────────┘
//
// Verdicts do not become Unhealthy from the moment of the suspicion until the judge URL has worked, as far as it is known
// to have worked at all. Once it has failed they are held visibly.
//
// Whoever was failing already when the judge URL worked does so by its own fault and is left out of all of this.
type cause struct {
	// members have had a result. failing of them have been failing since the judge URL last worked, dead since before.
	members       map[*state]struct{}
	failing, dead int
	// since is when over half began to fail, never while they do not.
	since time.Duration
	// held: no verdict becomes Unhealthy now. confirmed: the judge URL has failed since.
	held, confirmed bool
}

// count takes in the latest result of st.
func (e *Engine) count(st *state, ok bool) {
	if st.cause == nil {
		key := causeOf(st.proxy)
		c := e.causes[key]
		if c == nil {
			c = &cause{members: map[*state]struct{}{}, since: never}
			e.causes[key] = c
		}
		st.cause, st.badSince, st.dead = c, never, false
		c.members[st] = struct{}{}
	}
	c := st.cause
	switch {
	case ok:
		c.recovered(st)
	case st.badSince == never:
		st.badSince = e.now()
		c.failing++
	}
}

// recovered takes in that st does not fail.
func (c *cause) recovered(st *state) {
	switch {
	case st.badSince == never:
	case st.dead:
		c.dead--
	default:
		c.failing--
	}
	st.badSince, st.dead = never, false
}

// uncount takes st out of what it was counted in: it is gone, or probes another URL or at another interval.
func (e *Engine) uncount(st *state) {
	c := st.cause
	if c == nil {
		return
	}
	c.recovered(st)
	delete(c.members, st)
	st.cause = nil
	if len(c.members) == 0 {
		delete(e.causes, causeOf(st.proxy))
		if c.confirmed {
			e.showCauses()
		}
	}
}

// absolve takes in that the judge URL worked at the given time.
func (c *cause) absolve(at time.Duration) {
	if c.failing == 0 {
		return
	}
	for st := range c.members {
		if st.badSince != never && !st.dead && st.badSince < at {
			st.dead = true
			c.failing--
			c.dead++
		}
	}
}

func (c *cause) suspicious() bool {
	alive := len(c.members) - c.dead
	if c.since != never { // less, lest it comes and goes at the border
		return c.failing >= minFailing && 5*c.failing > 2*alive
	}
	return c.failing >= minFailing && 2*c.failing > alive
}

// weigh brings c up to date after its counts or what is known of the judge URL have changed, and returns the Proxies whose
// verdicts that changes.
func (e *Engine) weigh(c *cause, now time.Duration) (told []types.NamespacedName) {
	switch suspicious := c.suspicious(); {
	case suspicious && c.since == never:
		c.since = now
		e.referee.ask()
	case !suspicious:
		c.since = never
	}
	held, confirmed := false, false
	if c.since != never && e.referee.worked {
		held = !e.referee.worksSince(c.since)
		confirmed = held && e.referee.failedSince(c.since) && e.referee.inRow >= confirmations
	}
	if held == c.held && confirmed == c.confirmed {
		return nil
	}
	wasConfirmed := c.confirmed
	c.held, c.confirmed = held, confirmed
	switch {
	case confirmed && !wasConfirmed:
		told = e.each(c, e.hold)
		e.opts.Logger.Info("Verdicts are held: most proxies that probe one url fail, and so does the judge url",
			"failing", c.failing, "probing", len(c.members), "held", len(told))
	case wasConfirmed && !confirmed:
		told = e.each(c, e.resume)
		e.opts.Logger.Info("Verdicts are no longer held", "failing", c.failing, "probing", len(c.members), "resumed", len(told))
	}
	if !held {
		e.each(c, e.probeOverdue)
	}
	e.showCauses()
	return told
}

// weighAll is weigh for every cause.
func (e *Engine) weighAll(now time.Duration) (told []types.NamespacedName) {
	for _, c := range e.causes {
		told = append(told, e.weigh(c, now)...)
	}
	return told
}

// each calls f for every member of c, and returns those for which it wants the reconciler told.
func (e *Engine) each(c *cause, f func(*state) bool) (told []types.NamespacedName) {
	for st := range c.members {
		if f(st) {
			told = append(told, st.proxy.Key)
		}
	}
	return told
}

// hold keeps a verdict that would be Unhealthy by now, and takes back one that became so in the run of failures that led
// to the suspicion.
func (e *Engine) hold(st *state) bool {
	by := e.rulesFor(st.proxy)
	run := st.cause.since - time.Duration(by.failureThreshold)*interval(st.proxy)
	fell := st.fellAt != never && st.fellAt >= max(run, e.referee.lastWorked)
	return st.judge.hold(by, e.opts.Clock.Now(), fell) && e.publish(st)
}

// resume ends that; a full run of failures is needed from now on.
func (e *Engine) resume(st *state) bool {
	if st.judge.seeded {
		st.seededAt = e.now()
		e.scheduleLapse(st)
	}
	return st.judge.resume(e.opts.Clock.Now()) && e.publish(st)
}

// probeOverdue probes at once what was kept from becoming Unhealthy for nothing.
func (e *Engine) probeOverdue(st *state) bool {
	if st.flight == nil && st.judge.verdict.Health != fleet.Unhealthy && st.judge.fails >= e.rulesFor(st.proxy).failureThreshold {
		e.schedule(st, e.now())
		e.wakeFor(st.next)
	}
	return false
}

// showCauses tells the metrics.
func (e *Engine) showCauses() {
	m, ok := e.opts.Metrics.(SharedCauseRecorder)
	if !ok {
		return
	}
	urls := 0
	for _, c := range e.causes {
		if c.confirmed {
			urls++
		}
	}
	m.SetSharedCauses(urls)
}

// Replaceable reports whether the Proxy under key may be replaced for being Unhealthy: the engine says so of exactly this
// subject, after a full run of failures since the start of which none looks like having a cause outside of the proxy.
// unsure is true when it is Unhealthy, but not surely so by its own fault.
func (e *Engine) Replaceable(key types.NamespacedName, subject fleet.Subject) (replaceable, unsure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.states[key]
	if st == nil || st.judge.verdict.Health != fleet.Unhealthy || st.subject() != subject {
		return false, false
	}
	replaceable = !st.judge.seeded && !e.suspected(st) && st.alone >= e.rulesFor(st.proxy).failureThreshold
	return replaceable, !replaceable
}

// suspected reports whether the failures of st may have a cause outside of the proxy.
func (e *Engine) suspected(st *state) bool {
	c := st.cause
	return c != nil && c.since != never && !e.referee.worksSince(c.since)
}

// countAlone takes in a result after it has been weighed. Those that most others share are forgotten with the suspicion:
// who recovers later than the others, or is the first to be probed after a start, is not dead for that.
func (e *Engine) countAlone(st *state, ok bool) {
	if ok || e.suspected(st) {
		st.alone = 0
		return
	}
	st.alone++
}

// hold marks the verdict as held where the failures so far would have made it Unhealthy, or where that has just happened:
// fell.
func (j *judge) hold(by rules, at time.Time, fell bool) (report bool) {
	switch {
	case j.verdict.Held:
		return false
	case j.verdict.Health == fleet.Unhealthy && fell:
		j.verdict = j.before
	case j.verdict.Health == fleet.Unhealthy || j.fails < by.failureThreshold:
		return false
	default:
		j.before = j.verdict
	}
	j.verdict.Held, j.verdict.Reason, j.verdict.Message, j.verdict.At = true, v1alpha1.ReasonSharedCauseSuspected, messageHeld, at
	return true
}

// resume gives the verdict back as it was before it was held.
func (j *judge) resume(at time.Time) (report bool) {
	if !j.verdict.Held {
		return false
	}
	j.fails = 0
	j.verdict = j.before
	j.verdict.At = at
	return true
}
