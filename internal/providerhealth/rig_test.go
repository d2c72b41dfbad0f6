package providerhealth_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

const (
	// within bounds what a test waits for.
	within = 20 * time.Second
	// timeout is that of the rig's rounds.
	timeout = 2 * time.Second
)

// rig is a monitor on the real API server. Rounds begin by its clock or by Refresh; only their timeout is wall time.
type rig struct {
	t      *testing.T
	id     string // of this rig's installation, and the beginning of its entries' names
	client client.Client
	writer *writer
	clock  *clocktesting.FakeClock
	set    *set
	events *events
	logs   *logs
	series *series
	seen   *seen
	m      *providerhealth.Monitor
	stop   func()
}

func newRig(t *testing.T, change ...func(*rig, *providerhealth.Options)) *rig {
	t.Helper()
	x := &rig{
		t: t, id: "t-" + rand.String(8), client: newClient(t, config), clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		set: &set{entries: map[string]registry.Handle{}}, events: &events{}, logs: &logs{}, series: &series{up: map[string]bool{}},
		seen: &seen{statuses: map[string][]provider.TargetStatus{}, times: map[string]int{}}, stop: func() {},
	}
	x.writer = &writer{Client: x.client}
	x.restart(change...)
	t.Cleanup(func() { x.stop() })
	return x
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// restart makes another monitor that is not started yet; what the last one remembered is gone.
func (x *rig) restart(change ...func(*rig, *providerhealth.Options)) {
	x.t.Helper()
	x.stop()
	x.stop = func() {}
	o := providerhealth.Options{
		Providers: x.set, Live: x.client, Client: x.writer, Clock: x.clock, Owner: provider.Owner{Installation: x.id, Cluster: "here"},
		Timeout: timeout, OnChecked: x.seen.take, Metrics: x.series, Events: x.events,
	}
	for _, f := range change {
		f(x, &o)
	}
	m, err := providerhealth.New(o)
	must(x.t, err)
	x.m = m
}

// start runs the monitor until the test ends or stop is called.
func (x *rig) start(ctx context.Context) {
	x.t.Helper()
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(ctx, x.logs.logger()))
	ended := make(chan error, 1)
	go func() { ended <- x.m.Start(ctx) }()
	x.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			must(x.t, err)
		case <-time.After(within):
			x.t.Error("the monitor does not end")
		}
	})
}

// name is that of an entry of this rig: the API server is shared.
func (x *rig) name(entry string) string { return x.id + "-" + entry }

// entry adds or replaces an entry.
func (x *rig) entry(name, revision string, p provider.Provider) {
	x.set.put(registry.Handle{Name: x.name(name), Type: "fake", Revision: revision, Provider: p})
}

// round begins a round as time does, and waits until all that can be checked has been, and what came of it is written.
func (x *rig) round() {
	x.t.Helper()
	before, rounds := x.seen.counts(), x.set.rounds()
	x.until("the monitor waits for its clock", x.clock.HasWaiters)
	x.clock.Step(providerhealth.DefaultInterval)
	x.until("a round begins", func() bool { return x.set.rounds() > rounds })
	x.checked(before) // perhaps by a check that was under way already
	x.settled()
	x.barrier()
}

// barrier waits until the monitor has dealt with all answers that it had got: a round begins only then.
func (x *rig) barrier() {
	x.t.Helper()
	rounds := x.set.rounds()
	x.m.Refresh()
	x.until("a round begins", func() bool { return x.set.rounds() > rounds })
}

// settled is a barrier that leaves no check under way, either.
func (x *rig) settled() {
	x.t.Helper()
	before := x.seen.counts()
	x.barrier()
	x.checked(before)
}

// checked waits until all that can be checked has been.
func (x *rig) checked(before map[string]int) {
	x.t.Helper()
	x.until("all are checked", func() bool {
		now := x.seen.counts()
		return !slices.ContainsFunc(x.set.checkers(), func(name string) bool { return now[name] == before[name] })
	})
}

func (x *rig) until(what string, done func() bool) {
	x.t.Helper()
	until(x.t, func() string { return what + "; log:\n" + x.logs.String() }, done)
}

func until(t *testing.T, what func() string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what())
		}
	}
}

// get returns the object of an entry; nil if there is none.
func (x *rig) get(entry string) *v1alpha1.ProviderHealth {
	x.t.Helper()
	obj := &v1alpha1.ProviderHealth{}
	err := x.client.Get(x.t.Context(), client.ObjectKey{Name: x.name(entry)}, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(x.t, err)
	return obj
}

// shows waits until the entry's object has that in its Ready condition: "<status> <reason> <summary>".
func (x *rig) shows(entry, want string) *v1alpha1.ProviderHealth {
	x.t.Helper()
	got := "nothing"
	var obj *v1alpha1.ProviderHealth
	until(x.t, func() string { return fmt.Sprintf("%s shows %q, want %q; log:\n%s", entry, got, want, x.logs) }, func() bool {
		if obj = x.get(entry); obj == nil {
			return false
		}
		c := meta.FindStatusCondition(obj.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return false
		}
		got = fmt.Sprintf("%s %s %s", c.Status, c.Reason, obj.Status.Summary)
		return got == want
	})
	return obj
}

func condition(t *testing.T, obj *v1alpha1.ProviderHealth, of string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(obj.Status.Conditions, of)
	if c == nil {
		t.Fatalf("no condition %s in %+v", of, obj.Status.Conditions)
	}
	return *c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// set are the configured entries.
type set struct {
	mu      sync.Mutex
	entries map[string]registry.Handle
	asked   int
	onAll   func()
}

func (s *set) put(h registry.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[h.Name] = h
}

func (s *set) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, name)
}

func (s *set) All() (all []registry.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onAll != nil {
		s.onAll()
	}
	s.asked++
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		all = append(all, s.entries[name])
	}
	return all
}

func (s *set) Lookup(name string) (registry.Handle, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.entries[name]
	return h, ok
}

// rounds is how many have begun.
func (s *set) rounds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// checkers are the names of entries that can be checked and say so.
func (s *set) checkers() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.entries {
		if _, ok := h.Provider.(*backend); ok {
			names = append(names, name)
		}
	}
	return names
}

// seen is what OnChecked was told.
type seen struct {
	mu       sync.Mutex
	statuses map[string][]provider.TargetStatus
	times    map[string]int
}

func (s *seen) take(h registry.Handle, statuses []provider.TargetStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[h.Name] = statuses
	s.times[h.Name]++
}

func (s *seen) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.times)
}

func (s *seen) last(name string) []provider.TargetStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statuses[name]
}

// series are what the metrics would show.
type series struct {
	mu    sync.Mutex
	up    map[string]bool
	times int
}

func (s *series) TargetChecked(p, target string, up bool, _ time.Duration, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up[p+"/"+target] = up
	s.times++
}

func (s *series) TargetGone(p, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.up, p+"/"+target)
}

func (s *series) ProviderGone(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.up, func(key string, _ bool) bool { return strings.HasPrefix(key, p+"/") })
}

func (s *series) all() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.up)
}
