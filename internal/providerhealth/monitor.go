package providerhealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// patience is how long the end of the monitor waits for Checkers whose context has ended.
const patience = 2 * time.Second

// Monitor checks all provider entries and shows what it finds.
type Monitor struct {
	o       Options
	flights flights
	answers chan answer
	refresh chan struct{}
	all     sync.WaitGroup // checks under way

	// What follows belongs to Start's goroutine.
	entries map[string]*entry
	objects objects
	singles int // Events about single targets that this round may still publish
}

// New returns a monitor that does nothing until it is started. It fails when o cannot be used.
func New(o Options) (*Monitor, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("provider health: %w", err)
	}
	return &Monitor{
		o: o, flights: flights{running: map[string]map[built]*flight{}}, answers: make(chan answer), refresh: make(chan struct{}, 1),
		entries: map[string]*entry{},
	}, nil
}

// NeedLeaderElection lets only the leader ask the backends.
func (m *Monitor) NeedLeaderElection() bool { return true }

// String names the monitor in logs.
func (m *Monitor) String() string { return fmt.Sprintf("provider health every %s", m.o.Interval) }

// Refresh asks for a round at once, for the configuration has changed. It does not block; asking again before the round has
// begun asks for nothing more. An entry whose check is under way in the same revision is not checked twice.
func (m *Monitor) Refresh() {
	select {
	case m.refresh <- struct{}{}:
	default:
	}
}

// Start begins a round at once, at every interval and for each Refresh. It is to be called once; it blocks until ctx ends and
// the checks have returned, but waits for no Checker that ignores its context, and always returns nil.
func (m *Monitor) Start(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithName("providerhealth"))
	tick := m.o.Clock.NewTicker(m.o.Interval)
	defer tick.Stop()
	defer m.leave()
	for m.begin(ctx); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			m.begin(ctx)
		case <-m.refresh:
			m.begin(ctx)
		case a := <-m.answers:
			m.settle(ctx, a)
		}
	}
}

func (m *Monitor) leave() {
	gone := make(chan struct{})
	go func() { m.all.Wait(); close(gone) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	}
}

// begin starts a round: the checks run while the objects are looked at.
func (m *Monitor) begin(ctx context.Context) {
	m.singles = maxSingles
	handles := m.o.Providers.All()
	if ctx.Err() != nil {
		return // what is empty now may be so because everything ends
	}
	var settled []answer
	for _, h := range handles {
		c, ok := instrument.As[provider.Checker](h.Provider)
		if !ok {
			settled = append(settled, answer{handle: h, unsupported: true})
			continue
		}
		switch b, started, late := m.flights.start(h, func() func([]provider.TargetStatus) { return m.o.OnCheck(h) }); {
		case started:
			m.all.Go(func() { m.check(ctx, h, b, c) })
		case late:
			settled = append(settled, answer{handle: h, begun: b, late: true})
		}
	}
	m.look(ctx)
	m.forget(ctx, handles)
	for _, a := range settled {
		m.settle(ctx, a)
	}
	for _, h := range handles { // sorted, so that Events come in the same order each time
		if e := m.entries[h.Name]; e != nil && m.outdated(e) {
			m.publish(ctx, e)
		}
	}
}

// settle takes in how a check ended.
func (m *Monitor) settle(ctx context.Context, a answer) {
	if ctx.Err() != nil {
		return // the check may have failed for that
	}
	h := a.handle
	if now, ok := m.o.Providers.Lookup(h.Name); !ok || now.Revision != h.Revision {
		ctrl.LoggerFrom(ctx).V(1).Info("a check is dropped: the entry has changed meanwhile", "provider", h.Name)
		return
	}
	e := m.entries[h.Name]
	if e == nil {
		e = &entry{}
		m.entries[h.Name] = e
	}
	if !a.unsupported && a.begun.number < e.ended.begun.number {
		return // it was overtaken by a later one
	}
	m.recall(ctx, e, h.Name)
	statuses := a.statuses
	switch {
	case a.late:
		statuses = e.failed(provider.CheckTimeout, m.tooLate(), m.o.Timeout)
	case a.panicked:
		statuses = e.failed(reasonPanicked, panicText, 0)
	}
	m.count(e, h.Name, statuses)
	e.take(a, statuses, m.now())
	if len(statuses) > 0 {
		m.o.OnChecked(h, statuses)
		if a.begun.done != nil {
			a.begun.done(statuses)
		}
	}
	m.publish(ctx, e)
}

// count tells the metrics.
func (m *Monitor) count(e *entry, name string, statuses []provider.TargetStatus) {
	now, there := m.o.Clock.Now(), map[string]bool{}
	for _, s := range statuses {
		there[s.Target] = true
		m.o.Metrics.TargetChecked(name, s.Target, s.Ready, s.Latency, now)
	}
	for _, t := range e.targets {
		if !there[t.Target] {
			m.o.Metrics.TargetGone(name, t.Target)
		}
	}
}

// forget drops the entries that are no longer configured, with their metrics and objects.
func (m *Monitor) forget(ctx context.Context, handles []registry.Handle) {
	configured := make(map[string]bool, len(handles))
	for _, h := range handles {
		configured[h.Name] = true
	}
	for name := range m.entries {
		if !configured[name] {
			m.o.Metrics.ProviderGone(name)
			delete(m.entries, name)
		}
	}
	m.sweep(ctx, configured)
}

// now is the time as objects have it.
func (m *Monitor) now() time.Time { return m.o.Clock.Now().UTC().Truncate(time.Second) }

func (m *Monitor) tooLate() string {
	return fmt.Sprintf("the check did not return within %s", m.o.Timeout)
}
