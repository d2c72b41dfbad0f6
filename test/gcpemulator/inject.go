package gcpemulator

import (
	"net/http"
	"path"
	"slices"
	"sync"
	"time"
)

// Match says which calls a fault befalls. Each field is a pattern as in path.Match; an empty one matches everything.
type Match struct {
	// Call is the method's name: "instances.insert", "instances.*".
	Call string
	// Project and Zone are those of the URL; Name is that of the resource, for an insert the one in the body.
	Project, Zone, Name string
}

// On matches all calls of one method.
func On(call string) Match { return Match{Call: call} }

type rule struct {
	match Match
	fault Fault
	left  int // how many calls more; negative for any number
}

func (m Match) matches(c *call, target string) bool {
	for _, p := range [][2]string{{m.Call, c.name}, {m.Project, c.projectID}, {m.Zone, c.zone}, {m.Name, target}} {
		if ok, err := path.Match(p[0], p[1]); p[0] != "" && (err != nil || !ok) {
			return false
		}
	}
	return true
}

// Inject makes every call that matches suffer f until removed.
func (e *Emulator) Inject(m Match, f Fault) (remove func()) { return e.inject(m, f, -1) }

// InjectNext makes the next n calls that match suffer f.
func (e *Emulator) InjectNext(n int, m Match, f Fault) (remove func()) { return e.inject(m, f, n) }

// InjectOnce makes the next call that matches suffer f.
func (e *Emulator) InjectOnce(m Match, f Fault) (remove func()) { return e.inject(m, f, 1) }

func (e *Emulator) inject(m Match, f Fault, times int) func() {
	r := &rule{match: m, fault: f, left: times}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules = append(e.rules, r)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rules = slices.DeleteFunc(e.rules, func(x *rule) bool { return x == r })
	}
}

// used takes note that the rule has applied once.
func (e *Emulator) used(r *rule) {
	if r.left--; r.left == 0 {
		e.rules = slices.DeleteFunc(e.rules, func(x *rule) bool { return x == r })
	}
}

// Hold pauses the next call that matches before it takes effect. reached is closed when it pauses.
func (e *Emulator) Hold(m Match) (reached <-chan struct{}, release func()) {
	return e.hold(m, func(f *Fault, until <-chan struct{}) { f.Hold = until })
}

// HoldAnswer pauses the next call that matches after it has taken effect, before its answer.
func (e *Emulator) HoldAnswer(m Match) (reached <-chan struct{}, release func()) {
	return e.hold(m, func(f *Fault, until <-chan struct{}) { f.HoldAnswer = until })
}

func (e *Emulator) hold(m Match, how func(*Fault, <-chan struct{})) (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	f := Fault{held: sync.OnceFunc(func() { close(reached) })}
	how(&f, released)
	e.InjectOnce(m, f)
	return reached, sync.OnceFunc(func() { close(released) })
}

// Deny makes every call be refused as the API refuses a caller: 401 for "authError", else 403 for "forbidden",
// "accessNotConfigured", "quotaExceeded", "rateLimitExceeded" and the like.
func (e *Emulator) Deny(reason string) (restore func()) {
	f := Fault{Status: http.StatusForbidden, Reason: reason, Message: "Denied: " + reason}
	if reason == "authError" {
		f.Status, f.Message = http.StatusUnauthorized, "Request had invalid authentication credentials."
	}
	return e.Inject(Match{}, f)
}

// limit lets so many calls through in any one minute.
type limit struct {
	match      Match
	perMinute  int
	code       int
	retryAfter string
	seen       []time.Time
}

// tooFast is how the API asks for patience: https://cloud.google.com/compute/docs/api/rate-limits
const tooFast = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com'."

// LimitRate refuses calls that match beyond so many per minute, with status 403 or 429 and that Retry-After header ("" for
// none).
func (e *Emulator) LimitRate(m Match, perMinute, status int, retryAfter string) (remove func()) {
	l := &limit{match: m, perMinute: perMinute, code: status, retryAfter: retryAfter}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limits = append(e.limits, l)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.limits = slices.DeleteFunc(e.limits, func(x *limit) bool { return x == l })
	}
}

// overLimit returns how to refuse a call, code 0 for not at all.
func (e *Emulator) overLimit(c *call, target string) (code int, retryAfter string) {
	for _, l := range e.limits {
		if !l.match.matches(c, target) {
			continue
		}
		l.seen = slices.DeleteFunc(l.seen, func(t time.Time) bool { return c.now.Sub(t) >= time.Minute })
		if len(l.seen) >= l.perMinute {
			return l.code, l.retryAfter
		}
		l.seen = append(l.seen, c.now)
	}
	return 0, ""
}
