package observe_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestTheOldWatchDoesNotHaveTheLastWord catches it right in the middle of telling that an instance is gone, while the entry
// is rebuilt: what the new one tells must not be overtaken. It is not run in a bubble, where a lock stops the time.
func TestTheOldWatchDoesNotHaveTheLastWord(t *testing.T) {
	x := &rig{t: t, store: fleet.NewStore(), backends: map[string]*providertest.Backend{}, woken: map[types.NamespacedName]int{}}
	x.entry("cloud", providertest.BackendOptions{})
	old := x.watched("cloud")
	next := &watched{Provider: old.Provider, changes: make(chan provider.Change)}
	p := x.create("a", "")
	inst := x.instance(p)
	fake := clocktesting.NewFakeClock(time.Now())
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	x.observer = observe.New(observe.Options{
		Providers: x, Store: x.store, Clock: fake, Interval: interval, CallTimeout: callTimeout,
		Wake: func(types.NamespacedName) {
			once.Do(func() {
				close(reached)
				<-goOn
			})
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- x.observer.Start(ctx) }()

	old.changes <- provider.Change{Instance: inst, Gone: true}
	<-reached
	x.mu.Lock()
	x.entries = []registry.Handle{{Name: "cloud", Provider: next}}
	x.mu.Unlock()
	fake.Step(interval)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for range 2 { // once it takes the second, it has told the first
			next.changes <- provider.Change{Instance: inst}
		}
	}()
	select {
	case <-told:
		t.Error("the new watch is heard while the old one still is")
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	<-told
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	x.wantGone("there, says the new one", p, false)
}
