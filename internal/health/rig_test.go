package health

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// rig is an engine under a fake clock inside a synctest bubble, with probes that end when the test says so.
type rig struct {
	t      *testing.T
	store  *fleet.Store
	clock  *clocktesting.FakeClock
	engine *Engine
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	pending []*call
	// auto, where set, answers each probe at once.
	auto   func(Target) Result
	probes []string
	told   []string
	series []string
}

type call struct {
	target Target
	at     time.Time
	reply  chan Result
}

// underTest runs f in a bubble and stops the engine afterwards.
func underTest(t *testing.T, change func(*Options), f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: fleet.NewStore(), clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), ended: make(chan error, 1)}
		o := Options{
			Store: r.store, Prober: r, Clock: r.clock, Metrics: r, Logger: logr.Discard(),
			OnTransition: r.transition, Rand: rand.New(rand.NewPCG(1, 2)),
		}
		if change != nil {
			change(&o)
		}
		var err error
		if r.engine, err = New(o); err != nil {
			t.Fatal(err)
		}
		f(r)
		r.stop()
	})
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() { r.ended <- r.engine.Start(ctx) }()
	synctest.Wait()
}

func (r *rig) stop() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	if err := <-r.ended; err != nil {
		r.t.Error(err)
	}
}

// pass lets time pass in small steps.
func (r *rig) pass(d time.Duration) {
	for end := r.clock.Now().Add(d); r.clock.Now().Before(end); {
		r.clock.Step(min(end.Sub(r.clock.Now()), 50*time.Millisecond))
		synctest.Wait()
	}
}

// Probe implements Prober.
func (r *rig) Probe(ctx context.Context, t Target) Result {
	c := &call{target: t, at: r.clock.Now(), reply: make(chan Result, 1)}
	r.mu.Lock()
	r.probes = append(r.probes, t.Key.Name)
	auto := r.auto
	if auto == nil {
		r.pending = append(r.pending, c)
	}
	r.mu.Unlock()
	if auto != nil {
		return auto(t)
	}
	select {
	case res := <-c.reply:
		return res
	case <-ctx.Done():
		return Result{Reason: v1alpha1.ReasonTimeout, Inconclusive: true}
	}
}

func (r *rig) ObserveProbe(namespace, name string, _ time.Duration, ok bool, reason string) {
	r.record(fmt.Sprintf("observe %s/%s %v %s", namespace, name, ok, reason))
}

func (r *rig) Forget(namespace, name string) { r.record(fmt.Sprintf("forget %s/%s", namespace, name)) }

func (r *rig) record(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series = append(r.series, s)
}

// transition notes what the store says at that moment.
func (r *rig) transition(key types.NamespacedName) {
	// Another goroutine may hold the lock and lets go of it; the caller of this one never would.
	free := false
	for tries := 0; !free && tries < 1e6; tries++ {
		if free = r.engine.mu.TryLock(); !free {
			runtime.Gosched()
		}
	}
	if free {
		r.engine.mu.Unlock()
	} else {
		r.t.Error("OnTransition is called with the engine's lock held")
	}
	says := "gone"
	if p := r.store.Get(key); p != nil {
		says = healthName(p.Verdict.Health) + " " + p.Verdict.Reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, key.Name+" "+says)
}

func healthName(h fleet.Health) string { return [...]string{"Unknown", "Healthy", "Unhealthy"}[h] }

// take returns the only pending probe.
func (r *rig) take() *call {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) != 1 {
		r.t.Fatalf("%d probes are pending, want 1", len(r.pending))
	}
	c := r.pending[0]
	r.pending = nil
	return c
}

// takeAll returns the pending probes, of which there is one or more, in any order.
func (r *rig) takeAll() []*call {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		r.t.Fatal("no probe is pending")
	}
	all := r.pending
	r.pending = nil
	return all
}

func (r *rig) idle() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) != 0 {
		r.t.Fatalf("%d probes are pending, want none", len(r.pending))
	}
}

func (r *rig) end(c *call, res Result) {
	c.reply <- res
	synctest.Wait()
}

// heard returns the transitions since the last call.
func (r *rig) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}

func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.heard(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("transitions %q, want %q", got, want)
	}
}

func (r *rig) health(name string) fleet.Health {
	r.t.Helper()
	v, ok := r.engine.Verdict(keyOf(name))
	if !ok {
		r.t.Fatal("no verdict")
	}
	if p := r.store.Get(keyOf(name)); p != nil && p.Verdict.Health != v.Health {
		r.t.Fatalf("the store says %v, the engine %v", p.Verdict.Health, v.Health)
	}
	return v.Health
}

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// proxy returns a snapshot with an interval of 10 s and thresholds 1 and 3.
func proxy(name string, change ...func(*fleet.Proxy)) *fleet.Proxy {
	p := &fleet.Proxy{
		Key: keyOf(name), UID: "uid-" + name, Mode: v1alpha1.ModeManaged, Attempt: 1, Provisioned: true,
		Endpoint: fleet.Endpoint{Scheme: "http", Host: name + ".test", Port: 3128},
		Probe: v1alpha1.Probe{
			URL: "https://target.test/", Interval: 10 * time.Second, Timeout: 10 * time.Second,
			SuccessThreshold: 1, FailureThreshold: 3,
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func reported(h fleet.Health) func(*fleet.Proxy) {
	return func(p *fleet.Proxy) {
		p.Reported = fleet.Verdict{Subject: p.Subject(), Health: h, Reason: v1alpha1.ReasonProbeSucceeded, Latency: 50 * time.Millisecond}
	}
}

func attempt(n int64) func(*fleet.Proxy) { return func(p *fleet.Proxy) { p.Attempt = n } }

func good(latency time.Duration) Result {
	return Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: "fine", Latency: latency}
}

func bad(reason string) Result { return Result{Reason: reason, Message: "broken"} }
