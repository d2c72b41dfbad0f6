package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	fleetSize = 10_000
	// smallPool is how many of the proxies are in the pool that gets exhausted: one lease each.
	smallPool       = 1000
	verdictInterval = time.Second / 300
	benchNamespace  = "crawl"
)

func keyOf(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: benchNamespace, Name: fmt.Sprintf("proxy-%06d", i)}
}

// newFleet returns n healthy proxies with 20 attributes each and room for limit leases each (0: no bound). The first
// small of them are a pool of their own, with room for one.
func newFleet(n, small int, limit int32) *fleet.Store {
	store := fleet.NewStore()
	for i := range n {
		p := &fleet.Proxy{
			Key: keyOf(i), UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Mode: v1alpha1.ModeManaged, Provider: "local", Attempt: 1,
			Endpoint:    fleet.Endpoint{Scheme: "http", Host: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Port: 3128},
			ExitAddress: fmt.Sprintf("198.51.%d.%d", i>>8&255, i&255), Provisioned: true, Phase: v1alpha1.PhaseReady, Cap: limit,
			Credentials: &provider.Credentials{Username: "crawler", Password: "correct-horse-battery", Revision: "1"},
			Attributes: map[string]string{
				"pool": "large", "percent": fmt.Sprint(i % 100), "half": fmt.Sprint(i % 2), "other": fmt.Sprint(i % 2),
			},
		}
		if i < small {
			p.Attributes["pool"], p.Cap = "small", 1
		}
		for k := range 16 {
			p.Attributes[fmt.Sprintf("attribute-%02d", k)] = fmt.Sprintf("value-%d", i%(k+2))
		}
		subject := p.Subject()
		store.Apply(p)
		store.SetVerdict(keyOf(i), fleet.Verdict{Subject: subject, Health: fleet.Healthy, Latency: latencyOf(i)})
	}
	return store
}

func latencyOf(i int) time.Duration {
	return 5*time.Millisecond + time.Duration(i*7919%997)*100*time.Microsecond
}

// judge changes verdicts until ctx ends: one proxy after the other becomes unhealthy and, with the next change, healthy
// again at another latency.
func judge(ctx context.Context, store *fleet.Store) {
	tick := time.NewTicker(verdictInterval)
	defer tick.Stop()
	for step := 0; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		key := keyOf(step / 2 * 7919 % fleetSize)
		v := store.Get(key).Verdict
		if v.Health = fleet.Unhealthy; step%2 == 1 {
			v.Health, v.Latency = fleet.Healthy, latencyOf(step)
		}
		store.SetVerdict(key, v)
	}
}
