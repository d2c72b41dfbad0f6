package gc

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Defaults of Options.
const (
	DefaultInterval    = 10 * time.Minute
	DefaultMinAge      = 10 * time.Minute
	DefaultCallTimeout = 30 * time.Second
)

// Providers lists the configured provider entries.
type Providers interface {
	All() []registry.Handle
}

// Operations that a Recorder is told of when they fail.
const (
	OpList    = "list"    // a provider's instances
	OpProxies = "proxies" // the Proxies; it belongs to no provider
	OpRead    = "read"    // an orphan's Proxy, right before the delete
	OpDelete  = "delete"  // an orphan
)

// Recorder takes in what metrics show of the collector. It is called from several goroutines at once and must not
// block.
type Recorder interface {
	// OrphanDeleted is told of every deletion that a backend accepted.
	OrphanDeleted(provider string)
	// CollectionFailed counts a failed operation; provider is empty for OpProxies.
	CollectionFailed(provider, op string)
	// BreakerHeld says that the breaker holds so many orphans back under that digest; 0 and "" that it holds none, or
	// that the provider is gone.
	BreakerHeld(provider string, orphans int, digest string)
	// Orphans says how many instances of the provider had no Proxy in the last sweep, also those that may not be deleted yet.
	Orphans(provider string, found int)
	// ProviderGone is told that there is no such provider any more.
	ProviderGone(provider string)
	// Swept is told when a sweep that was not skipped ended, and how long it took.
	Swept(at time.Time, took time.Duration)
}

// Events publishes Events; the manager's recorders for events.k8s.io satisfy it.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Options configure a Collector. Providers, Live, Clock and Owner are required.
type Options struct {
	Providers Providers
	// Live reads Proxies, and approvals, from the API server and never from a cache: a Proxy missing in a stale answer would
	// cost its instance.
	Live  client.Reader
	Clock clock.WithTicker
	// Owner is the installation whose instances are collected.
	Owner provider.Owner

	// Interval lies between the end of a sweep and the start of the next, and bounds one sweep; 10m by default.
	Interval time.Duration
	// MinAge is how old an instance has to be; 10m by default.
	MinAge time.Duration
	// CallTimeout bounds each call to a backend and each read from the API server; 30s by default.
	CallTimeout time.Duration

	// DryRun says what would be deleted and deletes nothing.
	DryRun bool
	// Namespace is the one to which the operator is restricted; empty for none. A restricted operator collects only
	// with AllowNamespaced, and then only instances whose mark names the namespace.
	Namespace       string
	AllowNamespaced bool
	// Approve is the digest of a set that the breaker held and that may be deleted; empty for none. AnnotationApprove does
	// the same without a restart.
	Approve string

	// Metrics and Events may be nil.
	Metrics Recorder
	Events  Events
}

// complete checks o and fills in the defaults.
func (o *Options) complete() error {
	var errs []error
	if o.Providers == nil {
		errs = append(errs, errors.New("Providers is required"))
	}
	if o.Live == nil {
		errs = append(errs, errors.New("Live is required"))
	}
	if o.Clock == nil {
		errs = append(errs, errors.New("Clock is required"))
	}
	if err := o.Owner.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Owner: %w", err))
	}
	duration := func(name string, value *time.Duration, byDefault time.Duration) {
		if *value < 0 {
			errs = append(errs, fmt.Errorf("%s is %s, must not be negative", name, *value))
		}
		if *value == 0 {
			*value = byDefault
		}
	}
	duration("Interval", &o.Interval, DefaultInterval)
	duration("MinAge", &o.MinAge, DefaultMinAge)
	duration("CallTimeout", &o.CallTimeout, DefaultCallTimeout)
	if o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		errs = append(errs, fmt.Errorf("Namespace %q is not the name of a namespace", o.Namespace))
	}
	if o.Approve != "" && !digestForm.MatchString(o.Approve) {
		errs = append(errs, fmt.Errorf("Approve %q is not a digest: want the 16 hex digits that the breaker published", o.Approve))
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

func (unrecorded) OrphanDeleted(string)            {}
func (unrecorded) CollectionFailed(string, string) {}
func (unrecorded) BreakerHeld(string, int, string) {}
func (unrecorded) Orphans(string, int)             {}
func (unrecorded) ProviderGone(string)             {}
func (unrecorded) Swept(time.Time, time.Duration)  {}

type unpublished struct{}

func (unpublished) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
