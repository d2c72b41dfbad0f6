package gcpemulator

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Emulator is one Compute Engine. It is safe for concurrent use. Nothing in it happens but by its clock: whatever has
// fallen due takes effect, in order, at the next access.
type Emulator struct {
	opts  Options
	clock clock.PassiveClock
	mux   *http.ServeMux

	mu       sync.Mutex
	projects map[string]*project
	queue    []event
	seq      uint64
	rules    []*rule
	calls    map[string]int
	inFlight int
	limits   []*limit
	boot     time.Duration
	listLag  time.Duration
	looping  bool
	empty    int // pages without anything before the first
	free     []string
	notices  []func()

	delivering sync.Mutex
}

type project struct {
	id         string
	number     uint64
	instances  map[string]*instance // by zone/name, those not visible yet included
	disks      map[string]*disk     // likewise
	firewalls  map[string]*firewall
	operations map[string]*operation
	requests   map[string]*request
	quotas     map[string]map[string]float64 // by region and metric
	gone       []*instance                   // what a lagging list still shows
	goneDisks  []*disk                       // likewise
	unreached  map[string]Unreachable        // by zone
}

type event struct {
	at  time.Time
	run func(at time.Time)
}

// New returns an emulator without any resource.
func New(opts Options) *Emulator {
	opts.setDefaults()
	e := &Emulator{
		opts: opts, clock: opts.Clock, projects: map[string]*project{}, calls: map[string]int{},
		boot: opts.Delays.Boot, listLag: opts.ListLag, free: slices.Clone(opts.Addresses),
	}
	for i, id := range opts.Projects {
		e.projects[id] = &project{
			id: id, number: 401_000_000_001 + uint64(i), instances: map[string]*instance{}, disks: map[string]*disk{},
			firewalls: map[string]*firewall{}, operations: map[string]*operation{}, requests: map[string]*request{},
			quotas: map[string]map[string]float64{}, unreached: map[string]Unreachable{},
		}
	}
	e.mux = e.routes()
	return e
}

// Settle lets everything happen that has fallen due. Every other access does so as well.
func (e *Emulator) Settle() { e.locked(func(time.Time) {}) }

// locked runs f with the lock held and everything settled, then tells whoever waits for notice.
func (e *Emulator) locked(f func(now time.Time)) {
	defer e.deliver()
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.settle())
}

// settle lets everything happen that has fallen due, in order, and returns the time.
func (e *Emulator) settle() time.Time {
	now := e.clock.Now()
	for {
		next := -1
		for i, ev := range e.queue {
			if !ev.at.After(now) && (next < 0 || ev.at.Before(e.queue[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		ev := e.queue[next]
		e.queue = slices.Delete(e.queue, next, next+1)
		ev.run(ev.at)
	}
	for _, p := range e.projects {
		p.gone = slices.DeleteFunc(p.gone, func(in *instance) bool { return !in.goneAt.Add(e.listLag).After(now) })
		p.goneDisks = slices.DeleteFunc(p.goneDisks, func(d *disk) bool { return !d.goneAt.Add(e.listLag).After(now) })
		p.forget(now, e.opts)
	}
	return now
}

// after runs f once d has passed since now, at once for no delay.
func (e *Emulator) after(now time.Time, d time.Duration, f func(at time.Time)) {
	if d <= 0 {
		f(now)
		return
	}
	e.queue = append(e.queue, event{now.Add(d), f})
}

// notify has f called once the lock is released.
func (e *Emulator) notify(f func()) {
	e.notices = append(e.notices, f)
}

// deliver calls back in order. Only one goroutine does so at a time; the others leave their notices to it, so a callback
// may use the emulator.
func (e *Emulator) deliver() {
	for {
		e.mu.Lock()
		pending := len(e.notices) > 0
		e.mu.Unlock()
		if !pending || !e.delivering.TryLock() {
			return
		}
		e.mu.Lock()
		batch := e.notices
		e.notices = nil
		e.mu.Unlock()
		for _, f := range batch {
			f()
		}
		e.delivering.Unlock()
	}
}

// number returns a number that no resource ever had. Like the real ones they exceed what a float64 holds exactly.
func (e *Emulator) number() uint64 {
	e.seq++
	return 4_611_686_018_427_387_905 + e.seq*7_919_000_003
}

func stamp(t time.Time) string { return t.In(pacific).Format(timeFormat) }
