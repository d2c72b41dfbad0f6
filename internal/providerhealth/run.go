package providerhealth

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// spanCheck names the span around one check of one entry.
const spanCheck = "providerhealth.check"

// maxRevisions bounds how many revisions of one entry may have a Checker running at a time: whoever mends an entry whose
// Checker hangs does not wait for the old one, and whoever edits it a hundred times does not pile them up.
const maxRevisions = 3

// begun is a check that has begun.
type begun struct {
	// number: a later check has a higher one.
	number uint64
	// done is told what the check has shown; nil where nobody wants to know.
	done func([]provider.TargetStatus)
}

// answer is how a check ended.
type answer struct {
	handle   registry.Handle
	begun    begun
	statuses []provider.TargetStatus // cleaned
	// late: the Checker has not returned. panicked: it never will. unsupported: there is none.
	late, panicked, unsupported bool
}

// flights are the Checkers that are running.
type flights struct {
	mu      sync.Mutex
	running map[string]map[built]*flight // by entry
	started uint64
}

// built is what an entry was built to be: a revision that comes back is another one.
type built struct {
	revision string
	provider provider.Provider
}

func builtOf(h registry.Handle) built { return built{h.Revision, h.Provider} }

// flight is one running Checker.
type flight struct {
	begun begun
	late  bool
}

// start notes a run and calls begin, unless the entry has one in this revision or too many others. Then late says whether
// nothing is to be expected of it any more.
func (f *flights) start(h registry.Handle, begin func() func([]provider.TargetStatus)) (b begun, started, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ofEntry := f.running[h.Name]
	if fl, ok := ofEntry[builtOf(h)]; ok {
		return fl.begun, false, fl.late
	}
	if len(ofEntry) >= maxRevisions {
		return begun{number: f.started}, false, true // nothing of this revision has begun
	}
	if ofEntry == nil {
		ofEntry = map[built]*flight{}
		f.running[h.Name] = ofEntry
	}
	f.started++
	fl := &flight{begun: begun{number: f.started, done: begin()}}
	ofEntry[builtOf(h)] = fl
	return fl.begun, true, false
}

func (f *flights) giveUp(h registry.Handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[h.Name][builtOf(h)].late = true
}

func (f *flights) end(h registry.Handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running[h.Name], builtOf(h))
	if len(f.running[h.Name]) == 0 {
		delete(f.running, h.Name)
	}
}

// check runs one Checker and delivers its answer, at the latest when the round's time is over. It blocks until the Checker
// has returned.
func (m *Monitor) check(ctx context.Context, h registry.Handle, b begun, c provider.Checker) {
	// The Checker's time ends a little earlier, for it is to say itself which of its targets have not answered.
	round, cancelRound := context.WithTimeout(ctx, m.o.Timeout)
	defer cancelRound()
	checking, cancel := context.WithTimeout(round, m.o.Timeout-min(m.o.Timeout/5, 2*time.Second))
	defer cancel()
	checking, span := tracing.Start(checking, spanCheck, attribute.String("provider.name", h.Name), attribute.String("provider.type", h.Type))
	defer span.End() // does nothing the second time
	answers := make(chan answer, 1)
	go func() { answers <- m.ask(checking, h, c) }()
	a, returned := within(round, answers)
	if returned {
		m.flights.end(h)
	} else {
		a = answer{handle: h, late: true}
		m.flights.giveUp(h)
	}
	a.begun = b
	if ctx.Err() == nil { // what ends with the operator says nothing of the backend
		finish(span, a)
	}
	m.deliver(ctx, a)
	if !returned {
		<-answers
		m.flights.end(h) // nobody asks this entry before
	}
}

// within waits for an answer while ctx lasts.
func within(ctx context.Context, answers <-chan answer) (a answer, ok bool) {
	select {
	case a = <-answers:
		return a, true
	case <-ctx.Done():
	}
	select { // both may have been there
	case a = <-answers:
		return a, true
	default:
		return answer{}, false
	}
}

// deliver hands an answer to the loop. Nobody wants one once ctx has ended.
func (m *Monitor) deliver(ctx context.Context, a answer) {
	select {
	case m.answers <- a:
	case <-ctx.Done():
	}
}

// ask contains what a Checker does.
func (m *Monitor) ask(ctx context.Context, h registry.Handle, c provider.Checker) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("%s", described(v)), "a provider's check panicked", "provider", h.Name, "type", h.Type, "stack", string(debug.Stack()))
			a = answer{handle: h, panicked: true}
		}
	}()
	return answer{handle: h, statuses: cleaned(c.Check(ctx), m.o.Secrets)}
}

// described says what a panic was about. What is not the runtime's own may quote anything, also a secret.
func described(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

// finish ends the span of a check.
func finish(span trace.Span, a answer) {
	ready := 0
	for _, s := range a.statuses {
		if s.Ready {
			ready++
		}
	}
	span.SetAttributes(attribute.Int("provider.targets", len(a.statuses)), attribute.Int("provider.targets.ready", ready))
	switch {
	case a.late:
		span.SetStatus(codes.Error, "the check did not return")
	case a.panicked:
		span.SetStatus(codes.Error, "the check panicked")
	case ready < len(a.statuses):
		span.SetStatus(codes.Error, fmt.Sprintf("%d of %d targets are not ready", len(a.statuses)-ready, len(a.statuses)))
	}
	span.End()
}
