package main

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/health"
)

const (
	roleProber    = "prober"
	roleReference = "reference"
)

// round is how many probes a process is to make; spent is what that cost it.
type (
	round struct{ Probes int64 }
	spent struct{ CPU time.Duration }
)

// probeInRounds is a process that probes when told, with internal/health or with the reference.
func probeInRounds(ctx context.Context, role, arg string) error {
	r, err := parseRoute(arg)
	if err != nil {
		return err
	}
	once, err := proberOf(ctx, role, r)
	if err != nil {
		return err
	}
	return obey(nothing{}, func(r round) (spent, error) {
		var next atomic.Int64
		var workers sync.WaitGroup
		errs := make([]error, width)
		before := cpuTime()
		for i := range errs {
			workers.Go(func() {
				for errs[i] == nil && next.Add(1) <= r.Probes {
					errs[i] = once()
				}
			})
		}
		workers.Wait()
		return spent{CPU: cpuTime() - before}, errors.Join(errs...)
	})
}

// proberOf returns one probe, of a proxy that lives.
func proberOf(ctx context.Context, role string, r route) (func() error, error) {
	p := newProxy(1, probeEvery(30*time.Second, r.CA), r)
	if role == roleProber {
		prober := health.NewProber(health.ProberOptions{DialPolicy: health.RefuseInternal(nil)})
		return func() error {
			if result := prober.Probe(ctx, health.TargetOf(p)); !result.OK {
				return errors.New(result.Message)
			}
			return nil
		}, nil
	}
	// The roots are those that internal/health makes, and keeps, of the same bundle.
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(r.CA) {
		return nil, errors.New("the origin's authority cannot be read")
	}
	address := p.Endpoint.Address()
	return func() error { return referenceProbe(address, originHost, roots, p.Probe.Timeout) }, nil
}
