package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// after starts a part once something is ready.
type after struct {
	ready <-chan struct{}
	then  manager.Runnable
}

// Start implements manager.Runnable.
func (a after) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.ready:
	}
	return a.then.Start(ctx)
}

// entries are the configured providers.
type entries struct {
	mu      sync.Mutex
	handles []registry.Handle
}

// set replaces them.
func (e *entries) set(handles ...registry.Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handles = handles
}

// Lookup implements proxy.Providers.
func (e *entries) Lookup(name string) (registry.Handle, bool) {
	for _, h := range e.All() {
		if h.Name == name {
			return h, true
		}
	}
	return registry.Handle{}, false
}

// All implements observe.Providers and gc.Providers.
func (e *entries) All() []registry.Handle {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.handles
}

type noMetrics struct{}

// ProviderRequest implements instrument.RequestRecorder.
func (noMetrics) ProviderRequest(string, string, string, time.Duration) {}

// eventCounter counts the Events of each reason.
type eventCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

// Eventf implements events.EventRecorder.
func (e *eventCounter) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[string]int{}
	}
	e.counts[reason]++
}

// all returns the counts so far.
func (e *eventCounter) all() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.counts)
}

// random is a source of numbers that several goroutines may use.
type random struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (r *random) float64() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Float64()
}

// seed is what jitter and spreading start from; SCALE_SEED changes it.
func seed() uint64 {
	text := os.Getenv("SCALE_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(errors.Join(fmt.Errorf("SCALE_SEED=%q", text), err))
	}
	return n
}
