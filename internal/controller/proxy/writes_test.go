package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestWritesToAProxy counts at the API server what a Proxy costs: at most four writes until it is Ready and none in the
// minute after, while the provider words its state anew on every look and the latency of the probes jitters; and at most
// two Events.
//
//nolint:paralleltest // it counts what all tests of the package write
func TestWritesToAProxy(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{CreateDelay: 2 * time.Second, BootDelay: 4 * time.Second})
	h := x.entries[x.entry]
	looks := &atomic.Int64{}
	h.Provider = wordy{h.Provider, looks}
	x.entries[x.entry] = h

	store := fleet.NewStore()
	probes := &jittery{}
	woken := make(chan types.NamespacedName, 1000)
	engine, err := health.New(health.Options{
		Store: store, Prober: probes, Clock: x.clock, Metrics: probes, Rand: rand.New(rand.NewPCG(1, 2)),
		OnTransition: func(key types.NamespacedName) { woken <- key },
	})
	must(t, err)
	x.r.Health = engine
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Start(ctx) })
	defer running.Wait()
	defer cancel()

	key := x.managed("a", func(p *v1alpha1.Proxy) {
		p.Spec.HealthCheck = &v1alpha1.HealthCheck{URL: "http://probe.example/", Interval: v1alpha1.NewDuration(time.Second)}
	})
	before := writes(t)
	// second lets about a second pass, until the next probe where there is one, and reconciles whom it wakes.
	second := func() {
		if p := store.Get(key); p != nil && p.Probeable() {
			probes.next(t, x)
		} else {
			x.step(time.Second)
		}
		for len(woken) > 0 {
			x.pass(<-woken)
			store.Apply(fleet.FromObject(x.get(key), nil))
		}
	}
	ready := func() bool {
		return meta.IsStatusConditionTrue(x.get(key).Status.Conditions, v1alpha1.ConditionReady)
	}
	for n := 1; !ready(); n++ {
		if n > 60 {
			t.Fatalf("not Ready: %+v", x.get(key).Status)
		}
		x.pass(key)
		store.Apply(fleet.FromObject(x.get(key), nil))
		second()
	}
	untilReady := writes(t) - before
	if looks.Load() < 3 {
		t.Fatalf("only %d looks at the provider: the test shows nothing", looks.Load())
	}
	if untilReady > 4 {
		t.Errorf("%v writes until Ready, at most 4 are allowed", untilReady)
	}

	before, probed := writes(t), probes.count()
	for n := range 60 {
		second()
		if n%3 == 0 {
			x.pass(key)
			store.Apply(fleet.FromObject(x.get(key), nil))
		}
	}
	if after := writes(t) - before; after != 0 {
		t.Errorf("%v writes in the minute after Ready", after)
	}
	if n := probes.count() - probed; n < 60 {
		t.Errorf("only %d probes in the minute after Ready: the test shows nothing", n)
	}
	if got := x.events.all(); len(got) > 2 {
		t.Errorf("%d Events, at most 2 are allowed: %q", len(got), got)
	}
	t.Logf("writes until Ready: %v, in the minute after: 0, events: %d, looks: %d", untilReady, len(x.events.all()), looks.Load())
}

// wordy is a provider whose message is another one on every look.
type wordy struct {
	provider.Provider
	looks *atomic.Int64
}

func (w wordy) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	inst, err := w.Provider.Get(ctx, ref)
	if inst != nil {
		inst.Message = fmt.Sprintf("look %d", w.looks.Add(1))
	}
	return inst, err
}

// jittery is a prober whose latency jitters between 40 and 60 ms, and the recorder that counts its probes.
type jittery struct{ n atomic.Int64 }

func (j *jittery) Probe(context.Context, health.Target) health.Result {
	return health.Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Latency: time.Duration(40+rand.IntN(21)) * time.Millisecond}
}

func (j *jittery) ObserveProbe(string, string, time.Duration, bool, string) { j.n.Add(1) }

func (j *jittery) Forget(string, string) {}

func (j *jittery) count() int64 { return j.n.Load() }

// next lets time pass in small steps until the engine has counted another probe.
func (j *jittery) next(t *testing.T, x *rig) {
	t.Helper()
	before := j.count()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		if j.count() > before {
			return true, nil
		}
		x.step(20 * time.Millisecond)
		return false, nil
	})
	if err != nil {
		t.Fatalf("no probe after the %d-th", before)
	}
}

// writes returns how many requests that write Proxies the API server has served.
func writes(t *testing.T) (sum float64) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	data, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	must(t, err)
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["group"] == v1alpha1.Group && labels["resource"] == "proxies" && !strings.Contains("GET LIST WATCH", labels["verb"]) {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
