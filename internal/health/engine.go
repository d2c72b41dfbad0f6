package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Engine probes the fleet and owns its verdicts. It is a Runnable of the manager, for the leader only.
type Engine struct {
	opts Options
	// base is what all scheduling times are counted from.
	base time.Time
	// wake ends the wait of the loop early.
	wake chan struct{}
	jobs sync.WaitGroup

	mu      sync.Mutex
	started bool
	// synced: the fleet as it was at the start has been taken in.
	synced bool
	states map[types.NamespacedName]*state
	due    [laneCount]*queue
	lapses *queue
	lanes  *lanes
	// causes are the probe URLs of those that have had a result.
	causes  map[causeKey]*cause
	referee *referee
	// blocked: the last look left due probes waiting for a place in the lane.
	blocked [laneCount]bool
	// nextLook is when the loop will look again by itself.
	nextLook time.Duration
}

// New returns an engine that does nothing until Start.
func New(o Options) (*Engine, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	e := &Engine{
		opts:   o,
		base:   o.Clock.Now(),
		wake:   make(chan struct{}, 1),
		states: map[types.NamespacedName]*state{},
		causes: map[causeKey]*cause{},
		lanes:  newLanes(o.Workers, o.SlowWorkers),
	}
	for lane := range e.due {
		e.due[lane] = &queue{current: func(q entry) bool { return q.at == q.st.next }}
	}
	e.referee = newReferee(o.JudgeURL, o.Fetch)
	e.lapses = &queue{current: func(q entry) bool { return q.st.judge.seeded && q.at == q.st.lapseAt }}
	return e, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (e *Engine) NeedLeaderElection() bool { return true }

// Start probes until ctx ends; probes under way are then cut off and have no effect. It returns once the last of them
// has ended, and can be called only once.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	again := e.started
	e.started = true
	e.mu.Unlock()
	if again {
		return errors.New("health engine: started twice")
	}
	defer e.jobs.Wait()
	w := e.opts.Store.Watch()
	defer e.opts.Store.Stop(w)
	e.takeIn(w.Take(), true)

	if e.opts.JudgeURL != "" {
		e.jobs.Go(func() { e.judge(ctx) })
	}
	timer := e.opts.Clock.NewTimer(e.look(ctx))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		case <-e.wake:
		case <-w.Ready():
			e.takeIn(w.Take(), false)
		}
		timer.Reset(e.look(ctx))
	}
}

// Verdict returns what the engine says of the Proxy under key. It is false until the fleet has been taken in after the
// start: the status then still says the latest that is known. Afterwards a Proxy that is not being probed is answered
// with NotProbed about the empty subject. Callers must compare the subject with the one they speak of; while credentials
// are rotated, a verdict about the old ones is the one about the Proxy as its spec now is.
func (e *Engine) Verdict(key types.NamespacedName) (fleet.Verdict, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.synced {
		return fleet.Verdict{}, false
	}
	if st := e.states[key]; st != nil {
		v := st.judge.verdict
		v.Subject = st.subject()
		return v, true
	}
	return fleet.Verdict{Reason: v1alpha1.ReasonNotProbed, Message: messageNotProbed}, true
}

// now returns the time since the engine was made.
func (e *Engine) now() time.Duration { return e.opts.Clock.Since(e.base) }

func (e *Engine) rulesFor(p *fleet.Proxy) rules {
	return rules{
		successThreshold: max(p.Probe.SuccessThreshold, 1),
		failureThreshold: max(p.Probe.FailureThreshold, 1),
		minReport:        e.opts.MinReportInterval,
	}
}

// rulesIn are the rules for the next result of st, given the failures of others.
func (e *Engine) rulesIn(st *state) rules {
	by := e.rulesFor(st.proxy)
	if c := st.cause; c != nil {
		by.held, by.confirmed = c.held, c.confirmed
	}
	return by
}

// publish puts the verdict of st into the store. It is called with e.mu held, so that the store never has an older one
// than the engine; it returns whether the reconciler is to be told.
func (e *Engine) publish(st *state) bool {
	// Refused when the subject has just changed; the watcher will bring that change.
	return e.opts.Store.SetVerdict(st.proxy.Key, st.judge.verdict)
}

func (e *Engine) tell(keys []types.NamespacedName) {
	for _, key := range keys {
		e.opts.OnTransition(key)
	}
}
