package health

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const (
	// maxBackoff bounds how far failing targets stretch their interval.
	maxBackoff = 4
	// jitter is the share by which each interval is made longer or shorter, lest probes fall into step.
	jitter = 0.1
	// seededSpan is over how much time seeded verdicts are probed whose credentials may have changed meanwhile.
	seededSpan = 30 * time.Second
	// looksPerTick bounds how often the loop looks: nearby probes begin together.
	looksPerTick = 20
)

// interval returns the time between two probes of p.
func interval(p *fleet.Proxy) time.Duration {
	if p.Probe.Interval <= 0 {
		return v1alpha1.DefaultProbeInterval
	}
	return p.Probe.Interval
}

// fraction returns a random share of d.
func (e *Engine) fraction(d time.Duration) time.Duration {
	return time.Duration(e.opts.Rand.Float64() * float64(d))
}

// delay returns the time from the beginning of the last probe to that of the next.
func (e *Engine) delay(st *state) time.Duration {
	whole := interval(st.proxy)
	d := whole * time.Duration(st.judge.backoff(e.rulesFor(st.proxy)))
	d += time.Duration(float64(d) * jitter * (2*e.opts.Rand.Float64() - 1))
	if d > maxBackoff*whole {
		d = maxBackoff * whole
	}
	if st.proxy.Next != nil && e.now()-st.rotatedAt < rotationTime {
		d = min(d, rotationProbe)
	}
	return d
}

// schedule makes the next probe of st due at the given time, in place of the one scheduled before.
func (e *Engine) schedule(st *state, at time.Duration) {
	st.next = at
	lane := fast
	if st.judge.failing() {
		lane = slow
	}
	e.due[lane].push(entry{at: at, st: st})
}

func (e *Engine) scheduleLapse(st *state) {
	window := interval(st.proxy) * time.Duration(e.rulesFor(st.proxy).failureThreshold)
	st.lapseAt = st.seededAt + window
	e.lapses.push(entry{at: st.lapseAt, st: st})
}

// look begins the probes that are due, as far as the lanes have room, and returns how long to wait for the next look.
func (e *Engine) look(ctx context.Context) (wait time.Duration) {
	e.mu.Lock()
	now := e.now()
	told := e.endLapsed(now)
	e.lanes.age(now)
	next := now + e.opts.Tick
	for lane, q := range e.due {
		e.blocked[lane] = false
		for {
			first, ok := q.first()
			if !ok {
				break
			}
			if first.at > now {
				next = min(next, first.at)
				break
			}
			if !e.launch(ctx, first.st, laneName(lane), now) {
				e.blocked[lane] = true
				break
			}
			q.pop()
		}
	}
	if first, ok := e.lapses.first(); ok {
		next = min(next, first.at)
	}
	if at, ok := e.lanes.nextMove(e.blocked[fast]); ok {
		next = min(next, at)
	}
	e.nextLook = max(next, now+e.opts.Tick/looksPerTick)
	wait = e.nextLook - now
	e.mu.Unlock()
	e.tell(told)
	return wait
}

// endLapsed withdraws the seeded verdicts whose time is up.
func (e *Engine) endLapsed(now time.Duration) (told []types.NamespacedName) {
	for {
		first, ok := e.lapses.first()
		if !ok || first.at > now {
			return told
		}
		e.lapses.pop()
		st := first.st
		if c := st.cause; c != nil && c.held {
			st.seededAt = now
			e.scheduleLapse(st)
			continue
		}
		if st.next != never && st.next <= now { // due, but without a place so far
			st.lapseAt = now + e.opts.Tick
			e.lapses.push(entry{at: st.lapseAt, st: st})
			continue
		}
		if st.judge.lapse(e.opts.Clock.Now()) && e.publish(st) {
			e.opts.Logger.Info("Verdict from before the start lapsed", "namespace", st.proxy.Key.Namespace, "proxy", st.proxy.Key.Name)
			told = append(told, st.proxy.Key)
		}
	}
}
