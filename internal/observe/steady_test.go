package observe_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// api is as much of an API server as the reconciler needs, for far more objects than a real one takes in a unit test.
type api struct {
	client.Client
	mu      sync.Mutex
	held    map[types.NamespacedName]*v1alpha1.Proxy
	writes  int
	version int
}

func (a *api) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.held[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	p.DeepCopyInto(into.(*v1alpha1.Proxy))
	return nil
}

// store takes obj over as a merge patch checked by resourceVersion would; write copies the patched part.
func (a *api) store(obj client.Object, write func(stored, next *v1alpha1.Proxy)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := obj.(*v1alpha1.Proxy)
	stored := a.held[client.ObjectKeyFromObject(obj)]
	if stored.ResourceVersion != next.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("written in between"))
	}
	a.writes++
	a.version++
	write(stored, next.DeepCopy())
	stored.ResourceVersion = strconv.Itoa(a.version)
	stored.DeepCopyInto(next)
	return nil
}

func (a *api) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return a.store(obj, func(stored, next *v1alpha1.Proxy) {
		next.Status = stored.Status
		*stored = *next
	})
}

func (a *api) Status() client.SubResourceWriter { return status{api: a} }

type status struct {
	client.SubResourceWriter
	api *api
}

func (s status) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.api.store(obj, func(stored, next *v1alpha1.Proxy) { stored.Status = next.Status })
}

// operating is a rig with the real reconciler beside the observer.
type operating struct {
	*rig
	api    *api
	r      *proxy.Reconciler
	due    map[types.NamespacedName]time.Time // of the queue
	passes int
}

func newOperating(x *rig) *operating {
	x.t.Helper()
	a := &api{held: map[types.NamespacedName]*v1alpha1.Proxy{}}
	o := &operating{rig: x, api: a, due: map[types.NamespacedName]time.Time{}}
	share, err := proxy.ParseShare("10%")
	x.must(err)
	o.r = &proxy.Reconciler{
		Client: a, Live: a, CloudInit: a, Auth: a, Providers: o, Health: o, Observations: x.observer, Fleet: x.store,
		Leases: o, Events: o, Clock: clock.RealClock{}, CallTimeout: callTimeout, MaxReplacing: share,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: interval, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
	}
	return o
}

func (o *operating) Lookup(name string) (registry.Handle, bool) {
	h := o.All()[0]
	return h, h.Name == name
}

// Verdict is healthy about whatever has an address.
func (o *operating) Verdict(key types.NamespacedName) (fleet.Verdict, bool) {
	p := o.store.Get(key)
	if p == nil || !p.Probeable() {
		return fleet.Verdict{}, p != nil
	}
	return fleet.Verdict{Subject: p.Subject(), Health: fleet.Healthy, Reason: v1alpha1.ReasonProbeSucceeded, Latency: time.Millisecond}, true
}

func (o *operating) Replaceable(types.NamespacedName, fleet.Subject) (replaceable, unsure bool) {
	return false, false
}

func (o *operating) Withdraw(fleet.LeaseKey) int { return 0 }
func (o *operating) Readmit(fleet.LeaseKey)      {}
func (o *operating) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
}

// reconcile runs one pass and lets the read model follow.
func (o *operating) reconcile(key types.NamespacedName) {
	o.t.Helper()
	o.passes++
	delete(o.due, key)
	res, err := o.r.Reconcile(o.t.Context(), ctrl.Request{NamespacedName: key})
	o.must(err)
	if res.RequeueAfter > 0 {
		o.due[key] = time.Now().Add(res.RequeueAfter)
	}
	p := &v1alpha1.Proxy{}
	o.must(o.api.Get(o.t.Context(), key, p))
	o.store.Apply(fleet.FromObject(p, nil))
}

// work runs everything that is due or woken, second by second, for d.
func (o *operating) work(d time.Duration) {
	o.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		o.pass(time.Second)
		o.mu.Lock()
		for key := range o.woken {
			o.due[key] = time.Now()
		}
		clear(o.woken)
		o.mu.Unlock()
		for key, at := range o.due {
			if !at.After(time.Now()) {
				o.reconcile(key)
			}
		}
	}
}

// TestSteadyStateCallsDoNotGrowWithTheFleet lets observer and reconciler together settle a fleet and then watches what
// more intervals cost: the lists and nothing else, whatever the size, even while every Proxy is passed over once more in
// each, as health reports, Secrets and resyncs cause it.
func TestSteadyStateCallsDoNotGrowWithTheFleet(t *testing.T) {
	const rounds, forced = 10, 3
	for _, n := range []int{1, 1000} {
		observing(t, callTimeout, func(t *testing.T, x *rig) {
			o := newOperating(x)
			b := x.backends["cloud"]
			for i := range n {
				p := &v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: "cloud"}}
				p.Namespace, p.Name, p.UID = "ns", fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("uid-%d", i))
				key := client.ObjectKeyFromObject(p)
				o.api.held[key], o.due[key] = p, time.Now()
			}
			x.start()
			o.work(2 * interval)
			if got := len(b.Instances()); got != n {
				t.Fatalf("%d instances for %d Proxies", got, n)
			}
			for _, p := range x.store.List("", nil) {
				o.reconcile(p.Key) // the verdict
				if got := x.store.Get(p.Key); got.Phase != v1alpha1.PhaseReady {
					t.Fatalf("not settled: %+v", got)
				}
			}

			lists, others, writes, passes := x.lists("cloud"), otherCalls(b), o.api.writes, o.passes
			o.work(rounds * interval)
			if got := o.passes - passes; got != 0 {
				t.Errorf("%d Proxies: %d passes with nothing to do", n, got)
			}
			for range forced {
				for _, p := range x.store.List("", nil) {
					o.reconcile(p.Key)
				}
				o.work(interval)
			}
			if got := x.lists("cloud") - lists; got != rounds+forced {
				t.Errorf("%d Proxies: %d lists in %d intervals", n, got, rounds+forced)
			}
			if got := otherCalls(b) - others; got != 0 {
				t.Errorf("%d Proxies: %d calls besides the lists", n, got)
			}
			if got := o.api.writes - writes; got != 0 {
				t.Errorf("%d Proxies: %d writes although nothing changed", n, got)
			}

			gone := x.store.Get(types.NamespacedName{Namespace: "ns", Name: "p0"})
			b.Vanish(gone.ProviderID)
			o.work(2 * interval)
			if got := x.store.Get(gone.Key); len(b.Instances()) != n || got.Attempt != gone.Attempt+1 || !got.Provisioned {
				t.Errorf("%d Proxies: an instance that vanished was not made anew: %+v", n, got)
			}
			if got := otherCalls(b) - others; got == 0 || got > 20 {
				t.Errorf("%d Proxies: one that vanished costs %d calls", n, got)
			}
		})
	}
}
