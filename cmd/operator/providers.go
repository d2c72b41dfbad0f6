package main

import (
	"context"
	"fmt"
	"slices"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/filewatch"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/reload"
)

// providersFile is the providers' configuration as it was at the start.
type providersFile struct {
	data    []byte
	entries []registry.Entry
}

func readProviders(path string, types []string) (f providersFile, err error) {
	if f.data, err = filewatch.Read(path, registry.MaxFileSize); err != nil {
		return f, fmt.Errorf("--providers-config: %w", err)
	}
	if f.entries, err = registry.Parse(f.data, types); err != nil {
		return f, fmt.Errorf("%s:\n%w", path, err)
	}
	return f, nil
}

// build constructs the providers of the file. *turned is called when a call shuts a gate, or one opens: what is shown of the
// provider is old then. It is set before anything runs.
func (a *app) build(ctx context.Context, file providersFile, m *metrics.Metrics, releaser *proxy.Releaser, turned *func()) (err error) {
	opened := instrument.OnOpen(func(name, _ string) { releaser.Release(name); (*turned)() })
	shut := instrument.OnShut(func(string) { (*turned)() })
	refused := instrument.OnRefusal(m)
	a.providers, err = registry.Build(ctx, file.entries, a.o.factories(), registry.BuildOptions{
		Owner:  a.owner,
		Window: provider.Window{Clock: a.clock, CallTimeout: a.o.callTimeout, Skew: a.o.skewAllowance},
		Timers: a.clock,
		Gone:   m.ProviderGone, // once more: a pass that was under way has counted what came of it
		Decorate: func(name string, p provider.Provider) provider.Provider {
			// The guard is outermost: a call that it refuses is none, neither counted nor traced. Spans are around the
			// metrics, so that whatever comes to be observed of a call is observed inside of its span.
			traced := instrument.WithTracing(instrument.WithMetrics(p, name, a.clock, m), name)
			return instrument.WithGuard(traced, name, a.clock, opened, shut, refused)
		},
	})
	if err != nil {
		return fmt.Errorf("%s:\n%w", a.o.providersConfig, err)
	}
	return nil
}

// reloading keeps the providers what the file says.
type reloading struct {
	*reload.Reloader
	// refresh has the health of providers shown anew. It is set before the start.
	refresh func()
}

func (a *app) reloader(file providersFile, m *metrics.Metrics, observer *observe.Observer, releaser *proxy.Releaser) (*reloading, error) {
	recorder, err := metrics.NewReloads(ctrlmetrics.Registry, a.clock.Now())
	if err != nil {
		return nil, err
	}
	use := reload.InUse{Live: a.mgr.GetAPIReader(), Namespace: a.o.namespace, Timeout: a.o.callTimeout}
	r := &reloading{}
	r.Reloader = reload.New(reload.Options{
		Path: a.o.providersConfig, Known: file.data, Types: registry.Types(a.o.factories()), Registry: a.providers, InUse: use.IDs,
		Clock: a.clock, Log: a.mgr.GetLogger().WithName("providers"), Metrics: recorder,
		OnReload: func(c reload.Changes) {
			observer.Nudge() // before anything is woken: it shows the rebuilt ones' instances
			for _, name := range slices.Concat(c.Added, c.Changed, c.Removed) {
				releaser.Release(name)
			}
			for _, name := range c.Removed {
				m.ProviderGone(name)
			}
			r.refresh()
		},
	})
	return r, nil
}
