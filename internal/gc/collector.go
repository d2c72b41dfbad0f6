package gc

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// Collector finds and deletes orphans.
type Collector struct {
	o Options

	mu     sync.Mutex // one sweep at a time
	memory map[string]*memory
}

// New returns a collector that does nothing until it is started. It fails when o cannot be used.
func New(o Options) (*Collector, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("orphan collector: %w", err)
	}
	return &Collector{o: o, memory: map[string]*memory{}}, nil
}

// NeedLeaderElection lets only the leader delete.
func (c *Collector) NeedLeaderElection() bool { return true }

// String names the collector in logs.
func (c *Collector) String() string { return fmt.Sprintf("orphan collector every %s", c.o.Interval) }

// Start sweeps one interval after its start and one interval after each sweep. It blocks until ctx ends and the sweep
// in progress has returned, and always returns nil.
func (c *Collector) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("gc")
	ctx = ctrl.LoggerInto(ctx, log)
	if c.restricted() {
		log.Info("WARNING: orphans are not collected: the operator is restricted to a namespace and --gc-allow-namespaced is not set",
			"restrictedTo", c.o.Namespace)
		<-ctx.Done()
		return nil
	}
	timer := c.o.Clock.NewTimer(c.o.Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			c.Sweep(ctx)
			timer.Reset(c.o.Interval)
		}
	}
}

// restricted reports whether the collector must not collect at all.
func (c *Collector) restricted() bool { return c.o.Namespace != "" && !c.o.AllowNamespaced }

// Sweep looks at every provider once and deletes what is orphaned. It blocks until that is done, at most for the
// interval; what it did not get to is left to the next sweep. Sweeps exclude each other.
func (c *Collector) Sweep(ctx context.Context) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restricted() {
		return Report{Skipped: SkipRestricted}
	}
	ctx, span := tracing.StartSpan(ctx, "gc.sweep", trace.WithNewRoot())
	defer span.End()
	caller, began := ctx, c.o.Clock.Now()
	ctx, cancel := context.WithTimeout(caller, c.o.Interval)
	defer cancel()
	handles := c.o.Providers.All()
	c.keep(handles)

	// The order matters, see the package's comment. All providers together take as long as the slowest of them.
	listings := c.list(ctx, handles)
	live, err := c.liveUIDs(ctx)
	if err != nil {
		return c.skip(caller, err)
	}
	now := c.o.Clock.Now()

	report := Report{Providers: make([]ProviderReport, len(handles))}
	each(handles, func(i int, h registry.Handle) {
		report.Providers[i] = c.collect(ctx, h, listings[i], live, now)
	})
	ended := c.o.Clock.Now()
	c.o.Metrics.Swept(ended, ended.Sub(began))
	return report
}

// skip ends a sweep that cannot tell the living from the dead. That is nobody's failure when ctx, the caller's, has ended.
func (c *Collector) skip(ctx context.Context, err error) Report {
	for _, m := range c.memory {
		m.dead = nil // a gap
	}
	if ctx.Err() != nil {
		return Report{Skipped: SkipStopped}
	}
	ctrl.LoggerFrom(ctx).Info("the sweep is skipped: the Proxies could not be read completely", "error", err.Error())
	c.o.Metrics.CollectionFailed("", OpProxies)
	return Report{Skipped: SkipProxies}
}

// keep makes room for the configured providers and forgets all others.
func (c *Collector) keep(handles []registry.Handle) {
	configured := set[string]{}
	for _, h := range handles {
		configured.add(h.Name)
		if c.memory[h.Name] == nil {
			c.memory[h.Name] = &memory{}
		}
	}
	for name := range c.memory {
		if !configured.has(name) {
			delete(c.memory, name)
			c.o.Metrics.ProviderGone(name)
		}
	}
}

// listing is one provider's answer.
type listing struct {
	provider.Listing
	err error
}

// list asks all providers at once, so that a slow one delays no other's call.
func (c *Collector) list(ctx context.Context, handles []registry.Handle) []listing {
	answers := make([]listing, len(handles))
	each(handles, func(i int, h registry.Handle) {
		ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
		defer cancel()
		answers[i].Listing, answers[i].err = h.Provider.ListByTag(ctx)
	})
	return answers
}

// each runs f for every provider at the same time and waits for all.
func each(handles []registry.Handle, f func(i int, h registry.Handle)) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, h := range handles {
		all.Go(func() { f(i, h) })
	}
}
