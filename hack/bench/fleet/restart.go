package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// rounds is how often a restart is measured, each time beside a list of the bare client.
const rounds = 3

// restarts measures the time from a clean stop to the first lease, in proportion to a bare client's list of the same objects.
func (w *world) restarts(ctx context.Context, old *operator, f figures, verbose bool) error {
	var ratios, restarts, lists []float64
	for range rounds {
		listed, err := w.list(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := old.stop(); err != nil {
			return err
		}
		stopped := time.Since(began)
		if old, err = w.operator(ctx, verbose); err != nil {
			return err
		}
		defer old.kill()
		leased, err := old.firstLease(ctx)
		if err != nil {
			return err
		}
		note("stopped in %.2f s, first lease after another %.2f s, listed in %.2f s", stopped.Seconds(), leased.Seconds(), listed.Seconds())
		took := stopped + leased
		restarts, lists = append(restarts, took.Seconds()), append(lists, listed.Seconds())
		ratios = append(ratios, took.Seconds()/listed.Seconds())
	}
	f["fleet_restart_seconds"], f["fleet_list_seconds"], f["fleet_restart_ratio"] = median(restarts), median(lists), median(ratios)
	return old.stop()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// list takes as long as a new client takes for reading the fleet in pages of 500, as informers do.
func (w *world) list(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	c, err := client.New(w.config, client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		return 0, err
	}
	n := 0
	for more := ""; ; {
		var l v1alpha1.ProxyList
		if err := c.List(ctx, &l, client.InNamespace(fleetNamespace), client.Limit(500), client.Continue(more)); err != nil {
			return 0, err
		}
		n += len(l.Items)
		if more = l.Continue; more == "" {
			break
		}
	}
	if n != w.n {
		return 0, errors.New("not all are listed")
	}
	return time.Since(began), nil
}

// firstLease asks until one is granted and returns how long that took since the start.
func (o *operator) firstLease(ctx context.Context) (time.Duration, error) {
	l := &load{base: "http://" + o.api, http: &http.Client{Timeout: time.Second}}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if _, status := l.acquire(ctx); status == http.StatusCreated {
			return time.Since(o.began), nil
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("no lease within two minutes of the start")
}
