package observe_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// everyOp are the steps of every call but a list.
var everyOp = []string{
	providertest.OpCreateRead, providertest.OpCreate, providertest.OpGetOperation, providertest.OpGet, providertest.OpDeleteRead, providertest.OpDelete,
}

func otherCalls(b *providertest.Backend) (n int) {
	for _, op := range everyOp {
		n += b.Calls(op)
	}
	return n
}

func TestOneListForEachProviderAndInterval(t *testing.T) {
	const rounds = 5
	for _, n := range []int{0, 1, 1000} {
		observing(t, callTimeout, func(t *testing.T, x *rig) {
			x.entry("second", providertest.BackendOptions{})
			x.fleetOf(n)
			others := otherCalls(x.backends["cloud"])
			x.start()
			for range rounds {
				x.pass(interval)
			}
			for _, name := range []string{"cloud", "second"} {
				if got := x.lists(name); got != 1+rounds {
					t.Errorf("%d instances: %s was listed %d times at the start and in %d intervals", n, name, got, rounds)
				}
			}
			if got := otherCalls(x.backends["cloud"]) - others; got != 0 {
				t.Errorf("%d instances: the observer made %d other calls", n, got)
			}
			x.wantWoken("steady state")
		})
	}
}

func TestEntriesComeAndGo(t *testing.T) {
	observing(t, callTimeout, func(t *testing.T, x *rig) {
		x.start()
		x.entry("late", providertest.BackendOptions{})
		x.pass(interval)
		x.mu.Lock()
		x.entries = x.entries[1:]
		x.mu.Unlock()
		x.pass(interval)
		if cloud, late := x.lists("cloud"), x.lists("late"); cloud != 2 || late != 2 {
			t.Errorf("the removed entry was listed %d times, the added one %d times; want 2 each", cloud, late)
		}
	})
}

func TestAFailedListWakesNobodyAndKeepsTheLastAnswer(t *testing.T) {
	for _, class := range []error{provider.ErrTransient, provider.ErrDenied, errors.New("something else")} {
		observing(t, callTimeout, func(t *testing.T, x *rig) {
			p := x.create("a", "")
			x.start()
			x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Err: class} })
			x.backends["cloud"].Vanish(p.ProviderID)
			seen := func() bool { _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); return ok }
			for range 2 {
				x.pass(interval)
				if !seen() {
					t.Errorf("%v: the last answer is forgotten within two intervals", class)
				}
			}
			x.pass(time.Nanosecond)
			if seen() || x.observer.Strays("cloud", p.UID, "another") != nil {
				t.Errorf("%v: an answer older than two intervals still counts", class)
			}
			x.wantWoken("lists fail")
			x.backends["cloud"].OnCall(nil)
			x.pass(interval)
			x.wantWoken("lists work again", "a")
		})
	}
}

// TestAnAnswerIsAsOldAsItsQuestion: what a slow list shows was so when it was asked at the earliest.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	observing(t, 10*interval, func(t *testing.T, x *rig) {
		p := x.create("a", "")
		release := make(chan struct{})
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: release} })
		x.start()
		x.pass(2*interval + interval/2)
		x.backends["cloud"].OnCall(nil)
		close(release)
		x.pass(0)
		if _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); ok {
			t.Error("an answer to a question of more than two intervals ago counts")
		}
		x.pass(interval)
		if _, ok := x.observer.Seen("cloud", p.UID, p.ProviderID); !ok {
			t.Error("the next answer does not count")
		}
	})
}

func TestAHangingProviderDelaysNoOther(t *testing.T) {
	observing(t, 10*interval, func(t *testing.T, x *rig) {
		x.entry("silent", providertest.BackendOptions{})
		release := make(chan struct{})
		x.backends["silent"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: release} })
		p := x.create("a", "")
		x.start()
		for range 4 {
			x.pass(interval)
		}
		if cloud, silent := x.lists("cloud"), x.lists("silent"); cloud != 5 || silent != 1 {
			t.Errorf("in 4 intervals the healthy one was listed %d times, want 5, the silent one %d times, want 1", cloud, silent)
		}
		x.backends["cloud"].Stop(p.ProviderID, "")
		x.pass(interval)
		x.wantWoken("while another hangs", "a")
		close(release)
		x.pass(0)
		if got := x.lists("silent"); got != 1 {
			t.Errorf("the next list began with the return of the last, not with its interval: %d", got)
		}
		x.pass(interval)
		if got := x.lists("silent"); got != 2 {
			t.Errorf("listed %d times after it returned, want 2", got)
		}
	})
}

func TestAListIsBounded(t *testing.T) {
	observing(t, callTimeout, func(t *testing.T, x *rig) {
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: make(chan struct{})} })
		x.start()
		x.pass(2 * interval)
		if got := x.lists("cloud"); got != 3 {
			t.Errorf("listed %d times in two intervals although each call ends after %s; want 3", got, callTimeout)
		}
		x.wantWoken("nothing was answered")
	})
}

// TestStartEndsPromptly has a list under way for each of many providers. That nothing is left, the bubble checks.
func TestStartEndsPromptly(t *testing.T) {
	observing(t, time.Hour, func(_ *testing.T, x *rig) {
		for _, name := range []string{"p1", "p2", "p3"} {
			x.entry(name, providertest.BackendOptions{})
			x.backends[name].OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{Hold: make(chan struct{})} })
		}
		x.start()
		x.pass(3 * interval)
		x.stop()
	})
}

// TestStartReturnsAfterItsLists: whoever closes the providers once Start has returned closes none in use.
func TestStartReturnsAfterItsLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Bool
		fake := providertest.NewFake("slow", owner, provider.Window{Clock: clock.RealClock{}})
		fake.ListFunc = func(ctx context.Context) (provider.Listing, error) {
			<-ctx.Done()
			<-time.After(time.Second) // a client that takes its time to give up
			returned.Store(true)
			return provider.Listing{}, ctx.Err()
		}
		o := observe.New(observe.Options{
			Providers: &rig{entries: []registry.Handle{{Name: "slow", Provider: fake}}}, Store: fleet.NewStore(), Clock: clock.RealClock{},
			Interval: interval, CallTimeout: time.Hour, Wake: func(types.NamespacedName) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := o.Start(ctx); err != nil || !returned.Load() {
			t.Errorf("returned %v, the list before it: %v", err, returned.Load())
		}
	})
}

func TestSeenAndStrays(t *testing.T) {
	observing(t, callTimeout, func(t *testing.T, x *rig) {
		a := x.create("a", "zone-a")
		stray := x.make("cloud", "a", "zone-b", 2)
		x.create("b", "zone-a")
		ids := func(list []provider.Instance) (out []string) {
			for _, i := range list {
				out = append(out, i.ID)
			}
			return out
		}
		if _, ok := x.observer.Seen("cloud", a.UID, a.ProviderID); ok || x.observer.Strays("cloud", a.UID, a.ProviderID) != nil {
			t.Error("something was seen before the first list")
		}
		x.start()
		x.wantWoken("there is a stray", "a")
		inst, ok := x.observer.Seen("cloud", a.UID, a.ProviderID)
		if !ok || inst.ID != a.ProviderID || inst.IP != a.Endpoint.Host || inst.Marks.Attempt != 1 || inst.State != provider.StateRunning || inst.Identity == "" {
			t.Errorf("seen %v: %+v", ok, inst)
		}
		if got := ids(x.observer.Strays("cloud", a.UID, a.ProviderID)); !slices.Equal(got, []string{stray.ProviderID}) {
			t.Errorf("strays %v, want %s", got, stray.ProviderID)
		}
		if got := ids(x.observer.Strays("cloud", a.UID, "nothing")); len(got) != 2 {
			t.Errorf("%v are other than an ID that nobody has", got)
		}
		for what, ask := range map[string][3]string{
			"another UID": {"cloud", "uid-b", a.ProviderID}, "another ID": {"cloud", a.UID, "zones/zone-a/instances/x"},
			"another provider": {"second", a.UID, a.ProviderID}, "nothing": {"", "", ""},
		} {
			if _, ok := x.observer.Seen(ask[0], ask[1], ask[2]); ok {
				t.Errorf("%s was seen", what)
			}
		}
		x.backends["cloud"].Vanish(stray.ProviderID)
		x.pass(interval)
		if got := x.observer.Strays("cloud", a.UID, a.ProviderID); got != nil {
			t.Errorf("a stray that is gone is remembered: %v", got)
		}
		x.wantWoken("the stray is gone")
	})
}

// TestAWakeReadsTheFleetOfThatMoment: Proxies that came while the list was under way are compared with what they are now.
func TestAWakeReadsTheFleetOfThatMoment(t *testing.T) {
	observing(t, callTimeout, func(_ *testing.T, x *rig) {
		p := x.create("a", "")
		x.backends["cloud"].OnCall(func(string, provider.Ref) providertest.Fault {
			next := *p
			next.Draining, next.Provisioned = true, false
			x.store.Apply(&next)
			return providertest.Fault{}
		})
		x.backends["cloud"].Vanish(p.ProviderID)
		x.start()
		x.wantWoken("given up in the meantime")
	})
}
