package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
)

const (
	fleetSize = 10_000
	interval  = 30 * time.Second
	// noLatency is what probes that do nothing claim to take.
	noLatency = 50 * time.Millisecond
)

// noProbe does nothing and counts it.
type noProbe struct{ count atomic.Int64 }

// Probe implements health.Prober.
func (p *noProbe) Probe(context.Context, health.Target) health.Result {
	p.count.Add(1)
	return health.Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Latency: noLatency}
}

// meter is what an engine has used and how many probes it has begun.
type meter struct {
	CPU    time.Duration
	Probes int64
}

// probeNothing is an engine with the operator's own metrics, under the real clock.
func probeNothing(ctx context.Context) error {
	store, prober := newFleet(fleetSize, probeEvery(interval, nil), nowhere), &noProbe{}
	recorder, err := metrics.New(prometheus.NewRegistry(), store, func() lease.Stats { return lease.Stats{} })
	if err != nil {
		return err
	}
	e, err := health.New(health.Options{Store: store, Prober: prober, Clock: clock.RealClock{}, Metrics: recorder})
	if err != nil {
		return err
	}
	go func() { _ = e.Start(ctx) }()
	// The start is over once probes are due.
	for prober.count.Load() < fleetSize/100 {
		<-time.After(10 * time.Millisecond)
	}
	return obey(meter{}, func(nothing) (meter, error) { return meter{CPU: cpuTime(), Probes: prober.count.Load()}, nil })
}
