package providerhealth_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// backend is a provider that can be checked, and nothing else.
type backend struct {
	provider.Provider
	mu      sync.Mutex
	check   func(ctx context.Context) []provider.TargetStatus
	running int
	peak    int
}

func newBackend(statuses ...provider.TargetStatus) *backend {
	b := &backend{}
	b.answers(statuses...)
	return b
}

func (b *backend) Check(ctx context.Context) []provider.TargetStatus {
	b.mu.Lock()
	b.running++
	b.peak = max(b.peak, b.running)
	check := b.check
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}()
	return check(ctx)
}

// does makes later checks call f.
func (b *backend) does(f func(ctx context.Context) []provider.TargetStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.check = f
}

// answers makes later checks show that.
func (b *backend) answers(statuses ...provider.TargetStatus) {
	b.does(func(context.Context) []provider.TargetStatus { return statuses })
}

func (b *backend) counts() (running, peak int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running, b.peak
}

func up(target string) provider.TargetStatus {
	return provider.TargetStatus{Target: target, Ready: true, Reason: provider.CheckReachable, Latency: 12 * time.Millisecond}
}

func down(target, reason, message string) provider.TargetStatus {
	return provider.TargetStatus{Target: target, Reason: reason, Message: message}
}

// hosts returns n names.
func hosts(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("host-%03d", i))
	}
	return names
}

// writer is the API server with a tap.
type writer struct {
	client.Client
	mu     sync.Mutex
	before func(verb string, obj client.Object) error
	calls  []string
}

// tap has f called before each write, which does not take place if it fails.
func (w *writer) tap(f func(verb string, obj client.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

func (w *writer) heard(verb string, obj client.Object) error {
	w.mu.Lock()
	w.calls = append(w.calls, verb+" "+obj.GetName())
	before := w.before
	w.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(verb, obj)
}

// take returns the writes since the last call.
func (w *writer) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func (w *writer) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := w.heard("create", obj); err != nil {
		return err
	}
	return w.Client.Create(ctx, obj, opts...)
}

func (w *writer) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if err := w.heard("delete", obj); err != nil {
		return err
	}
	return w.Client.Delete(ctx, obj, opts...)
}

func (w *writer) Status() client.SubResourceWriter {
	return &statusWriter{SubResourceWriter: w.Client.Status(), w: w}
}

type statusWriter struct {
	client.SubResourceWriter
	w *writer
}

func (s *statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := s.w.heard("status", obj); err != nil {
		return err
	}
	return s.SubResourceWriter.Update(ctx, obj, opts...)
}

// events keeps Events, one line each.
type events struct {
	mu    sync.Mutex
	about []*v1alpha1.ProviderHealth
	lines []string
}

func (e *events) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about = append(e.about, regarding.(*v1alpha1.ProviderHealth))
	e.lines = append(e.lines, fmt.Sprintf("%s %s %s", kind, reason, fmt.Sprintf(note, args...)))
}

func (e *events) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lines)
}

// take returns the lines since the last call.
func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := e.lines
	e.lines = nil
	return lines
}

// logs keeps log lines.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{Verbosity: 1})
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count is in how many lines all parts are.
func (l *logs) count(parts ...string) (n int) {
lines:
	for line := range strings.Lines(l.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		n++
	}
	return n
}
