package providertest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
)

// Outcome is how one part of a recorded run ended.
type Outcome struct {
	Failed  bool
	Skipped bool
	// Messages of failures, of a skip and of Logf, in order.
	Messages []string
}

// Recorder is a T that keeps what happened instead of failing: it shows that a rule goes red where it should.
type Recorder struct {
	ctx  context.Context //nolint:containedctx // a T has one, as a testing.T does
	root *Recorder
	name string

	mu       sync.Mutex
	outcome  Outcome
	cleanups []func()
	parts    map[string]Outcome // of the root only
}

// NewRecorder returns a recorder whose Context descends from ctx.
func NewRecorder(ctx context.Context) *Recorder {
	r := &Recorder{ctx: ctx, parts: map[string]Outcome{}}
	r.root = r
	return r
}

// Outcome returns how the part of that name ended; ok is false when it did not run. Parts of parts are named a/b.
func (r *Recorder) Outcome(name string) (o Outcome, ok bool) {
	r.root.mu.Lock()
	defer r.root.mu.Unlock()
	o, ok = r.root.parts[name]
	return o, ok
}

// Outcomes returns how each part ended, by name.
func (r *Recorder) Outcomes() map[string]Outcome {
	r.root.mu.Lock()
	defer r.root.mu.Unlock()
	parts := make(map[string]Outcome, len(r.root.parts))
	for name, o := range r.root.parts {
		parts[name] = o
	}
	return parts
}

// Run runs f and records how it ended. A panic is a failure.
func (r *Recorder) Run(name string, f func(T)) bool {
	ctx, cancel := context.WithCancel(r.ctx)
	part := &Recorder{ctx: ctx, root: r.root, name: name}
	if r.name != "" {
		part.name = r.name + "/" + name
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer part.finish(cancel)
		f(part)
	}()
	<-done
	r.root.mu.Lock()
	r.root.parts[part.name] = part.outcome
	r.root.mu.Unlock()
	if part.outcome.Failed && r != r.root {
		r.note(&r.outcome.Failed, "%s failed", part.name)
	}
	return !part.outcome.Failed
}

// finish runs when the goroutine of a part ends, however it does.
func (r *Recorder) finish(cancel func()) {
	if p := recover(); p != nil {
		r.note(&r.outcome.Failed, "panic: %v\n%s", p, debug.Stack())
	}
	cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func (r *Recorder) note(flag *bool, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if flag != nil {
		*flag = true
	}
	r.outcome.Messages = append(r.outcome.Messages, fmt.Sprintf(format, args...))
}

// Helper does nothing.
func (r *Recorder) Helper() {}

// Context ends before the cleanups run.
func (r *Recorder) Context() context.Context { return r.ctx }

// Cleanup implements T; the root's cleanups never run.
func (r *Recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Logf implements T.
func (r *Recorder) Logf(format string, args ...any) { r.note(nil, format, args...) }

// Errorf implements T.
func (r *Recorder) Errorf(format string, args ...any) { r.note(&r.outcome.Failed, format, args...) }

// Fatalf implements T.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf implements T.
func (r *Recorder) Skipf(format string, args ...any) {
	r.note(&r.outcome.Skipped, format, args...)
	runtime.Goexit()
}
