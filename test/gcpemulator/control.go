package gcpemulator

import (
	"maps"
	"time"
)

// Calls returns how many calls of that method have been received, refused and lost ones included.
func (e *Emulator) Calls(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[name]
}

// AllCalls returns how many calls of each method have been received.
func (e *Emulator) AllCalls() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.calls)
}

// InFlight returns how many calls have been sent off to arrive late and have not arrived yet.
func (e *Emulator) InFlight() (n int) {
	e.locked(func(time.Time) { n = e.inFlight })
	return n
}

// SetBootDelay changes how long instances that become visible from now on take to run.
func (e *Emulator) SetBootDelay(d time.Duration) {
	e.locked(func(time.Time) { e.boot = d })
}

// HoldBoot keeps instances that become visible from now on from running until released.
func (e *Emulator) HoldBoot() (release func()) {
	const forever = 100 * 365 * 24 * time.Hour
	var before time.Duration
	e.locked(func(time.Time) { before, e.boot = e.boot, forever })
	return func() {
		e.locked(func(now time.Time) {
			e.boot = before
			for _, p := range e.projects {
				for _, in := range p.instances {
					if in.visible && (in.status == statusProvisioning || in.status == statusStaging) {
						e.run(in, now)
					}
				}
			}
		})
	}
}

// SetUnreachable changes how a zone of a project can be reached. What is in it lives on.
func (e *Emulator) SetUnreachable(project, zone string, how Unreachable) {
	e.locked(func(time.Time) {
		if how == Reachable {
			delete(e.must(project).unreached, zone)
			return
		}
		e.must(project).unreached[zone] = how
	})
}

// SetListLag changes how far lists of instances and disks are behind.
func (e *Emulator) SetListLag(d time.Duration) {
	e.locked(func(time.Time) { e.listLag = d })
}

// SetLoopingPages makes every page of a list name a next one, which is the first again.
func (e *Emulator) SetLoopingPages(on bool) {
	e.locked(func(time.Time) { e.looping = on })
}

// SetEmptyPages puts that many pages without anything before the first page of every list.
func (e *Emulator) SetEmptyPages(n int) {
	e.locked(func(time.Time) { e.empty = n })
}

// ForgetRequests makes the emulator forget all requestIds.
func (e *Emulator) ForgetRequests() {
	e.locked(func(time.Time) {
		for _, p := range e.projects {
			clear(p.requests)
		}
	})
}

// ForgetOperations removes all operations that have ended, as their time would. requestIds stay remembered.
func (e *Emulator) ForgetOperations() {
	e.locked(func(time.Time) {
		for _, p := range e.projects {
			maps.DeleteFunc(p.operations, func(_ string, op *operation) bool { return !op.ended.IsZero() })
		}
	})
}
