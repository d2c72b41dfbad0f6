package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Factory constructs a provider of one type. It never dials: a backend that is down must not keep the others from
// starting. ctx bounds the construction only; it may carry a logger.
type Factory func(ctx context.Context, opts provider.Options) (provider.Provider, error)

// Types returns the names of the factories, sorted: what Parse takes.
func Types(factories map[string]Factory) []string { return slices.Sorted(maps.Keys(factories)) }

// BuildOptions are common to all providers.
type BuildOptions struct {
	Owner provider.Owner
	// Window brings Clock, CallTimeout and Skew.
	Window provider.Window
	// Timers bound the waits of Reload and of what it closes; the real clock when nil.
	Timers clock.Clock
	// Decorate, where set, wraps each provider after its construction.
	Decorate func(name string, p provider.Provider) provider.Provider
	// Gone, where set, is told the name of an entry that was taken out once nothing that had begun on it is under way any more,
	// unless there is an entry of that name again. It must neither block nor change the registry.
	Gone func(name string)
}

// Build constructs the providers of entries. It fails with the problems of all entries joined, and then has closed what
// it had already constructed.
func Build(ctx context.Context, entries []Entry, factories map[string]Factory, opts BuildOptions) (*Registry, error) {
	if err := opts.Owner.Validate(); err != nil {
		return nil, err
	}
	if opts.Timers == nil {
		opts.Timers = clock.RealClock{}
	}
	r := &Registry{factories: factories, opts: opts, gone: map[string]gone{}, stop: make(chan struct{})}
	set, err := r.buildAll(ctx, entries)
	r.handles.Store(&set)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// buildAll constructs what it can, and returns the problems of all entries joined.
func (r *Registry) buildAll(ctx context.Context, entries []Entry) (map[string]Handle, error) {
	set := make(map[string]Handle, len(entries))
	var errs []error
	for _, e := range entries {
		h, err := build(ctx, e, r.factories, r.opts)
		if err == nil {
			set[e.Name] = h
		}
		errs = append(errs, err)
	}
	return set, errors.Join(errs...)
}

func build(ctx context.Context, e Entry, factories map[string]Factory, opts BuildOptions) (Handle, error) {
	factory, ok := factories[e.Type]
	if !ok {
		return Handle{}, fmt.Errorf("provider %q: no factory for type %q", e.Name, e.Type)
	}
	raw, err := factory(ctx, provider.Options{Name: e.Name, Block: e.Block(), Owner: opts.Owner, Window: opts.Window})
	if err != nil {
		return Handle{}, named(e, err)
	}
	h := Handle{
		Name: e.Name, Type: e.Type, Revision: revision(opts.Owner, e), MaxInstances: e.MaxInstances,
		Namespaces: slices.Clone(e.Namespaces), Provider: raw, raw: raw,
	}
	if opts.Decorate != nil {
		h.Provider = opts.Decorate(e.Name, raw)
	}
	return h, nil
}

// named adds entry and line to errors that do not come from the entry's block and so lack them.
func named(e Entry, err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return err
	}
	return fmt.Errorf("line %d: provider %q: %w", e.Line, e.Name, err)
}
