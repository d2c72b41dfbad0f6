package health

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Defaults of Options.
const (
	DefaultWorkers           = 64
	DefaultSlowWorkers       = 1024
	DefaultTick              = time.Second
	DefaultMinReportInterval = time.Minute
)

// Recorder takes in what metrics show of probing. Its methods are called with the engine's lock held: they must neither
// block nor call the engine.
type Recorder interface {
	// ObserveProbe is told of every probe that counted.
	ObserveProbe(namespace, name string, took time.Duration, ok bool, reason string)
	// Forget drops whatever is kept for a proxy. No ObserveProbe about it follows unless it is probed anew.
	Forget(namespace, name string)
}

// TargetRefusalRecorder is what a Recorder implements to count the probes whose target, reached through the proxy,
// answered 401, 403 or 429. ObserveProbe is called for them as well.
type TargetRefusalRecorder interface {
	ObserveTargetRefusal(namespace, name string)
}

// SharedCauseRecorder is what a Recorder implements to show how many probe URLs there are whose verdicts are held.
type SharedCauseRecorder interface {
	SetSharedCauses(urls int)
}

// Options configure an Engine. Store and Prober are required, everything else has a default.
type Options struct {
	Store  *fleet.Store
	Prober Prober
	Clock  clock.WithTicker
	// Workers bounds the probes younger than a second to targets that were not failing; SlowWorkers those that are
	// older or that were.
	Workers     int
	SlowWorkers int
	// Tick is the longest time between two looks for due probes; a look is taken when something is due, but at most
	// every twentieth of it.
	Tick time.Duration
	// MinReportInterval is the least time between two reports about a proxy whose health does not change.
	MinReportInterval time.Duration
	Metrics           Recorder
	Logger            logr.Logger
	// OnTransition is called after the store has a new verdict, and when a verdict that the status still shows no
	// longer stands. It must not block; no lock is held.
	OnTransition func(key types.NamespacedName)
	// JudgeURL is fetched without any proxy to tell whether failures that most proxies share come from outside of them;
	// empty for never. See CheckJudgeURL.
	JudgeURL string
	// Fetch fetches the JudgeURL and returns nil when it worked; nil wants a 2xx answer within ten seconds. It blocks
	// until then or until ctx ends.
	Fetch func(ctx context.Context, url string) error
	// Rand spreads probes in time. The engine alone uses it from then on.
	Rand *rand.Rand
}

func (o *Options) complete() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("Store is required"))
	}
	if o.Prober == nil {
		errs = append(errs, errors.New("Prober is required"))
	}
	positive := func(name string, value, byDefault int64) int64 {
		if value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d, must not be negative", name, value))
		}
		if value == 0 {
			return byDefault
		}
		return value
	}
	o.Workers = int(positive("Workers", int64(o.Workers), DefaultWorkers))
	o.SlowWorkers = int(positive("SlowWorkers", int64(o.SlowWorkers), DefaultSlowWorkers))
	o.Tick = time.Duration(positive("Tick", int64(o.Tick), int64(DefaultTick)))
	o.MinReportInterval = time.Duration(positive("MinReportInterval", int64(o.MinReportInterval), int64(DefaultMinReportInterval)))
	if o.JudgeURL != "" {
		if err := CheckJudgeURL(o.JudgeURL); err != nil {
			errs = append(errs, fmt.Errorf("JudgeURL: %w", err))
		}
	}
	if o.Fetch == nil {
		o.Fetch = fetchDirectly
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = noRecorder{}
	}
	if o.OnTransition == nil {
		o.OnTransition = func(types.NamespacedName) {}
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // spreads load, guards nothing
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("health engine: %w", err)
	}
	return nil
}

type noRecorder struct{}

func (noRecorder) ObserveProbe(_, _ string, _ time.Duration, _ bool, _ string) {}
func (noRecorder) Forget(_, _ string)                                          {}
