package gc_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// The tests here are about time alone and run in a bubble with its own; the API server cannot be in one, so a reader
// that knows of one Proxy stands for it.

var (
	_ manager.Runnable               = (*gc.Collector)(nil)
	_ manager.LeaderElectionRunnable = (*gc.Collector)(nil)
)

type handles []registry.Handle

func (h handles) All() []registry.Handle { return h }

var aliveUID = uidOf("alive")

// oneProxy lists one Proxy and finds none of the names that orphans have.
func oneProxy() *reader {
	return &reader{
		list: func(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
			list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{UID: types.UID(aliveUID)}}}
			return nil
		},
		get: func(_ context.Context, key client.ObjectKey, _ client.Object) error { return notFound(key.Name) },
	}
}

// bubble returns a collector over scripted providers, in the bubble's time.
func bubble(t *testing.T, o gc.Options, fakes map[string]*providertest.Fake) *gc.Collector {
	t.Helper()
	var hs handles
	for name, f := range fakes {
		hs = append(hs, registry.Handle{Name: name, Provider: f})
	}
	o.Providers, o.Clock, o.Owner = hs, clock.RealClock{}, mine()
	if o.Live == nil {
		o.Live = oneProxy()
	}
	c, err := gc.New(o)
	must(t, err)
	return c
}

func fake(name string) *providertest.Fake {
	return providertest.NewFake(name, mine(), provider.Window{Clock: clock.RealClock{}})
}

// hang blocks until the call is given up.
func hang(ctx ctxT) (provider.Listing, error) {
	<-ctx.Done()
	return provider.Listing{}, ctx.Err()
}

func TestTheFirstSweepComesAFullIntervalAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake(cloud)
		c := bubble(t, gc.Options{}, map[string]*providertest.Fake{cloud: f})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		for _, step := range []struct {
			wait  time.Duration
			lists int
		}{{0, 0}, {gc.DefaultInterval - 1, 0}, {1, 1}, {gc.DefaultInterval - 1, 1}, {1, 2}, {gc.DefaultInterval, 3}} {
			<-time.After(step.wait)
			synctest.Wait()
			if n := len(f.Calls("list")); n != step.lists {
				t.Errorf("%d lists, want %d", n, step.lists)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyTheLeaderCollects(t *testing.T) {
	c := bubble(t, gc.Options{}, nil)
	if !c.NeedLeaderElection() {
		t.Error("every replica would delete")
	}
}

func TestARestrictedCollectorSaysSoAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := fake(cloud), &logs{}
		c := bubble(t, gc.Options{Namespace: "crawlers"}, map[string]*providertest.Fake{cloud: f})
		ctx, cancel := context.WithTimeout(ctrl.LoggerInto(t.Context(), l.logger()), 10*gc.DefaultInterval)
		defer cancel()
		must(t, c.Start(ctx))
		if n := len(f.Calls("list")); n != 0 {
			t.Errorf("%d lists", n)
		}
		if n := len(l.matching("WARNING: orphans are not collected", "--gc-allow-namespaced")); n != 1 {
			t.Errorf("log:\n%s", l)
		}
	})
}

func TestASlowProviderHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := fake("slow"), fake("quick")
		slow.ListFunc = hang
		asked := time.Now()
		quick.ListFunc = func(ctxT) (provider.Listing, error) {
			if d := time.Since(asked); d != 0 {
				t.Errorf("asked after %s", d)
			}
			return provider.Listing{}, nil
		}
		c := bubble(t, gc.Options{CallTimeout: time.Minute}, map[string]*providertest.Fake{"slow": slow, "quick": quick})
		r := c.Sweep(t.Context())
		if d := time.Since(asked); d != time.Minute {
			t.Errorf("the sweep took %s", d)
		}
		if r.Of("slow").Err == nil || r.Of("quick").Err != nil || r.Of("quick").Name == "" {
			t.Errorf("report: %+v", r)
		}
	})
}

// orphans makes the fake list n orphans beside the instance of the one Proxy.
func orphans(f *providertest.Fake, n int) {
	f.ListFunc = func(ctxT) (l provider.Listing, err error) {
		for i := range n + 1 {
			name := strings.Repeat("o", i+1)
			inst := provider.Instance{
				Identity: name, State: provider.StateRunning, CreatedAt: time.Now().Add(-time.Hour), Marks: provider.Marks{
					UID: uidOf(name), Namespace: "crawlers", Name: name, Installation: "mine", Cluster: "here", Spec: spec, Attempt: 1,
				},
			}
			if i == n {
				inst.Marks.UID = aliveUID
			}
			inst.ID = idIn("zone-a", inst.Marks.UID)
			l.Instances = append(l.Instances, inst)
		}
		return l, nil
	}
}

func TestEveryCallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, live := fake(cloud), oneProxy()
		orphans(f, 1)
		live.get = func(ctx ctxT, _ client.ObjectKey, _ client.Object) error { <-ctx.Done(); return ctx.Err() }
		c := bubble(t, gc.Options{CallTimeout: time.Minute, Live: live}, map[string]*providertest.Fake{cloud: f})
		took := func(what string, want time.Duration) gc.Report {
			t.Helper()
			start := time.Now()
			r := c.Sweep(t.Context())
			if d := time.Since(start); d != want {
				t.Errorf("%s: the sweep took %s, want %s", what, d, want)
			}
			return r
		}
		took("the first sweep", 0)
		took("reading the Proxy again", time.Minute)
		live.get = oneProxy().get
		f.DeleteFunc = func(ctx ctxT, _ provider.Ref) error { <-ctx.Done(); return ctx.Err() }
		if r := took("deleting", time.Minute); len(r.Of(cloud).Failed) != 1 {
			t.Errorf("report: %+v", r)
		}
		live.list = func(ctx ctxT, _ client.ObjectList, _ ...client.ListOption) error { <-ctx.Done(); return ctx.Err() }
		if r := took("listing the Proxies", time.Minute); r.Skipped != gc.SkipProxies {
			t.Errorf("report: %+v", r)
		}
	})
}

func TestASweepIsBoundedByTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake(cloud)
		orphans(f, 9)
		f.DeleteFunc = func(ctx ctxT, _ provider.Ref) error { <-ctx.Done(); return ctx.Err() }
		c := bubble(t, gc.Options{Interval: 5*time.Minute + 30*time.Second, CallTimeout: time.Minute}, map[string]*providertest.Fake{cloud: f})
		c.Sweep(t.Context())
		start := time.Now()
		r := c.Sweep(t.Context())
		if d := time.Since(start); d != 5*time.Minute+30*time.Second || len(r.Of(cloud).Failed) != 9 || len(f.Calls("delete")) != 6 {
			t.Errorf("%s, %d calls, report: %+v", d, len(f.Calls("delete")), r)
		}
	})
}

// Pages that each come in time may still take too long together; that must not go unnoticed.
func TestAListOfProxiesThatOutlastsTheIntervalIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m, live := fake(cloud), &recorder{orphans: map[string]int{}}, oneProxy()
		live.list = func(ctx ctxT, list client.ObjectList, _ ...client.ListOption) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
			}
			list.SetContinue("more")
			return nil
		}
		c := bubble(t, gc.Options{Interval: 9*time.Minute + 30*time.Second, CallTimeout: 2 * time.Minute, Live: live, Metrics: m}, map[string]*providertest.Fake{cloud: f})
		if r := c.Sweep(t.Context()); r.Skipped != gc.SkipProxies {
			t.Errorf("report: %+v", r)
		}
		if got := m.take(); len(got) != 1 {
			t.Errorf("metrics: %q", got)
		}
	})
}

func TestTheEndOfTheContextEndsASweepAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := fake(cloud), &recorder{orphans: map[string]int{}}
		f.ListFunc = hang
		live := oneProxy()
		live.list = func(ctx ctxT, _ client.ObjectList, _ ...client.ListOption) error { return ctx.Err() }
		c := bubble(t, gc.Options{Live: live, CallTimeout: time.Hour, Interval: 2 * time.Hour, Metrics: m}, map[string]*providertest.Fake{cloud: f})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		<-time.After(2*time.Hour + time.Minute)
		cancel()
		end := time.Now()
		must(t, <-done)
		if d := time.Since(end); d != 0 {
			t.Errorf("it took %s", d)
		}
		if got := m.take(); len(got) != 0 {
			t.Errorf("metrics: %q", got)
		}
	})
}

// Once the context has ended nothing more is deleted: another leader may be at work.
func TestNothingIsDeletedAfterTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake(cloud)
		orphans(f, 5)
		c := bubble(t, gc.Options{}, map[string]*providertest.Fake{cloud: f})
		c.Sweep(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		f.DeleteFunc = func(ctxT, provider.Ref) error { cancel(); return nil }
		if r := c.Sweep(ctx).Of(cloud); len(r.Deleted) != 1 || len(r.Failed) != 4 || len(f.Calls("delete")) != 1 {
			t.Errorf("report: %+v", r)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	good := func() gc.Options {
		return gc.Options{Providers: handles{}, Live: oneProxy(), Clock: clock.RealClock{}, Owner: mine()}
	}
	if _, err := gc.New(good()); err != nil {
		t.Errorf("good options: %v", err)
	}
	for want, spoil := range map[string]func(*gc.Options){
		"Providers":   func(o *gc.Options) { o.Providers = nil },
		"Live":        func(o *gc.Options) { o.Live = nil },
		"Clock":       func(o *gc.Options) { o.Clock = nil },
		"Owner":       func(o *gc.Options) { o.Owner.Cluster = "" },
		"Interval":    func(o *gc.Options) { o.Interval = -1 },
		"MinAge":      func(o *gc.Options) { o.MinAge = -1 },
		"CallTimeout": func(o *gc.Options) { o.CallTimeout = -1 },
		"Namespace":   func(o *gc.Options) { o.Namespace = "a.b" },
		"Approve":     func(o *gc.Options) { o.Approve = "0123456789ABCDEF" },
	} {
		o := good()
		spoil(&o)
		if _, err := gc.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
