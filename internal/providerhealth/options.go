package providerhealth

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Defaults of Options.
const (
	DefaultInterval       = time.Minute
	DefaultReportInterval = 10 * time.Minute
	DefaultTimeout        = 30 * time.Second
)

// Providers are the configured entries; *registry.Registry satisfies it.
type Providers interface {
	// All returns the entries, sorted by name.
	All() []registry.Handle
	// Lookup returns the entry of that name.
	Lookup(name string) (registry.Handle, bool)
}

// Writer writes objects; a client.Client satisfies it.
type Writer interface {
	client.Writer
	client.StatusClient
}

// Recorder is told what checks showed. It must not block.
type Recorder interface {
	// TargetChecked is told how a target is, how long it took to answer and when that was.
	TargetChecked(provider, target string, up bool, took time.Duration, at time.Time)
	// TargetGone is told that the entry has no such target any more.
	TargetGone(provider, target string)
	// ProviderGone is told that there is no such entry any more.
	ProviderGone(provider string)
}

// Events publishes Events; the manager's recorders for events.k8s.io satisfy it.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Options configure a Monitor. Providers, Live, Client, Clock and Owner are required.
type Options struct {
	Providers Providers
	// Live reads ProviderHealths from the API server and never from a cache.
	Live   client.Reader
	Client Writer
	Clock  clock.WithTicker
	// Owner is the installation whose objects are written and deleted.
	Owner provider.Owner

	// Interval between two rounds, from 1s; 1m by default.
	Interval time.Duration
	// ReportInterval is how old what an object shows may become while nothing changes, from 1s; 10m by default.
	ReportInterval time.Duration
	// Timeout bounds the checks of a round, from 100ms; 30s by default. It runs on the wall clock.
	Timeout time.Duration

	// OnChecked, where set, is called after each check with what it showed, sorted by target and fit to be shown: also with
	// CheckTimeout for all known targets of a Checker that did not return, and not for entries without a Checker. It is
	// called before anything is written, from one goroutine, and must not block.
	OnChecked func(h registry.Handle, statuses []provider.TargetStatus)
	// OnCheck, where set, is called as each check begins. What it returns is called once the check has shown something, as
	// OnChecked is; and again in every round in which a Checker that did not return has still not done so, for the check is
	// that which began then. It must not block.
	OnCheck func(h registry.Handle) (done func([]provider.TargetStatus))
	// ConfigProblem, where set, returns why the present content of the configuration file is not in use for an entry, empty
	// if it is. The text is deterministic and at most 512 bytes; one that begins with a reason and a colon ("InUse: …") also
	// says the condition's reason, which is InvalidConfiguration otherwise. It must not block.
	ConfigProblem func(entry string) (problem string)
	// Secrets, where set, are hidden in all that checks and ConfigProblem say.
	Secrets *message.Secrets

	// Metrics and Events may be nil.
	Metrics Recorder
	Events  Events
}

// complete checks o and fills in the defaults.
func (o *Options) complete() error {
	var errs []error
	for _, m := range []struct {
		name    string
		missing bool
	}{{"Providers", o.Providers == nil}, {"Live", o.Live == nil}, {"Client", o.Client == nil}, {"Clock", o.Clock == nil}} {
		if m.missing {
			errs = append(errs, fmt.Errorf("%s is required", m.name))
		}
	}
	if err := o.Owner.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Owner: %w", err))
	}
	for _, d := range []struct {
		name             string
		value            *time.Duration
		byDefault, least time.Duration
	}{
		{"Interval", &o.Interval, DefaultInterval, time.Second},
		{"ReportInterval", &o.ReportInterval, DefaultReportInterval, time.Second},
		{"Timeout", &o.Timeout, DefaultTimeout, 100 * time.Millisecond},
	} {
		if *d.value == 0 {
			*d.value = d.byDefault
		}
		if *d.value < d.least {
			errs = append(errs, fmt.Errorf("%s is %s, must be at least %s", d.name, *d.value, d.least))
		}
	}
	if o.OnChecked == nil {
		o.OnChecked = func(registry.Handle, []provider.TargetStatus) {}
	}
	if o.OnCheck == nil {
		o.OnCheck = func(registry.Handle) func([]provider.TargetStatus) { return nil }
	}
	if o.ConfigProblem == nil {
		o.ConfigProblem = func(string) string { return "" }
	}
	if o.Metrics == nil {
		o.Metrics = unrecorded{}
	}
	if o.Events == nil {
		o.Events = unpublished{}
	}
	return errors.Join(errs...)
}

type unrecorded struct{}

func (unrecorded) TargetChecked(string, string, bool, time.Duration, time.Time) {}
func (unrecorded) TargetGone(string, string)                                    {}
func (unrecorded) ProviderGone(string)                                          {}

type unpublished struct{}

func (unpublished) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
