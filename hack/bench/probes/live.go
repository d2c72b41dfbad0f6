package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
)

// longestPause is the longest time from the beginning of one probe of a live target to when the next is due: the
// interval and the engine's jitter.
const longestPause = interval + interval/10

// watched is what became of the probes that began since the last answer. Times are in milliseconds.
type watched struct {
	P50, P99, Max float64
	// Live and LiveFailed count probes of live targets, Overdue those of them that ought to have begun and have not.
	Live, LiveFailed, Overdue int
	// DeadFailed counts probes that failed as they should.
	DeadFailed int
	CPU        time.Duration
}

// watch is a prober that notes how late each probe of a target that stays alive begins.
type watch struct {
	health.Prober
	mu   sync.Mutex
	late []time.Duration
	// began is when the last probe of each target began.
	began   []time.Time
	watched watched
	cpu     time.Duration
}

// Probe implements health.Prober.
func (w *watch) Probe(ctx context.Context, t health.Target) health.Result {
	now := time.Now()
	i, err := indexOf(t.Key)
	if err != nil {
		return health.Result{Inconclusive: true}
	}
	live := fateOf(i) == lives
	if live {
		w.mu.Lock()
		w.late = append(w.late, max(0, now.Sub(t.Due)))
		w.began[i] = now
		w.mu.Unlock()
	}
	r := w.Prober.Probe(ctx, t)
	if !r.OK {
		w.mu.Lock()
		defer w.mu.Unlock()
		if live {
			w.watched.LiveFailed++
		} else {
			w.watched.DeadFailed++
		}
	}
	return r
}

// report returns what was noted since the last report. A probe that should have begun by now counts as late as it is at
// least: leaving out whom the engine never came to would flatter it.
func (w *watch) report() watched {
	w.mu.Lock()
	late, out, now := w.late, w.watched, time.Now()
	w.late, w.watched = nil, watched{}
	out.Live = len(late)
	for i, began := range w.began {
		if over := now.Sub(began) - longestPause; over > 0 && fateOf(i) == lives {
			late, out.Overdue = append(late, over), out.Overdue+1
		}
	}
	w.mu.Unlock()
	cpu := cpuTime()
	out.CPU, w.cpu = cpu-w.cpu, cpu
	if len(late) > 0 {
		slices.Sort(late)
		ms := func(i int) float64 { return float64(late[i].Microseconds()) / 1000 }
		out.P50, out.P99, out.Max = ms(len(late)/2), ms(len(late)*99/100), ms(len(late)-1)
	}
	return out
}

// probeFleet is an engine as the operator makes it, over real connections.
func probeFleet(ctx context.Context, arg string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := parseRoute(arg)
	if err != nil {
		return err
	}
	store := newFleet(fleetSize, probeEvery(interval, r.CA), r)
	recorder, err := metrics.New(prometheus.NewRegistry(), store, func() lease.Stats { return lease.Stats{} })
	if err != nil {
		return err
	}
	w := &watch{Prober: health.NewProber(health.ProberOptions{DialPolicy: health.RefuseInternal(nil)}), began: make([]time.Time, fleetSize)}
	e, err := health.New(health.Options{Store: store, Prober: w, Clock: clock.RealClock{}, Metrics: recorder})
	if err != nil {
		return err
	}
	// The first probe is due within the interval.
	for i := range w.began {
		w.began[i] = time.Now().Add(interval - longestPause)
	}
	w.cpu = cpuTime()
	go func() { _ = e.Start(ctx) }()
	return obey(nothing{}, func(nothing) (watched, error) { return w.report(), nil })
}
