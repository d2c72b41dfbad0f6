package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

const namePrefix = "proxy-"

// newFleet returns n Managed proxies that are healthy according to their status: an engine spreads the first probes of
// those over the interval.
func newFleet(n int, probe v1alpha1.Probe, r route) *fleet.Store {
	store := fleet.NewStore()
	for i := range n {
		store.Apply(newProxy(i, probe, r))
	}
	return store
}

func newProxy(i int, probe v1alpha1.Probe, r route) *fleet.Proxy {
	port := r.Proxy
	if fateOf(i) == goesDeaf {
		port = r.Deaf
	}
	p := &fleet.Proxy{
		Key: types.NamespacedName{Namespace: "crawl", Name: fmt.Sprintf("%s%06d", namePrefix, i)},
		UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Mode: v1alpha1.ModeManaged, Provider: "local", Attempt: 1,
		Endpoint:    fleet.Endpoint{Scheme: "http", Host: addressOf(i).String(), Port: port},
		Provisioned: true, Phase: v1alpha1.PhaseReady, Probe: probe,
	}
	p.Reported = fleet.Verdict{Subject: p.Subject(), Health: fleet.Healthy, Reason: v1alpha1.ReasonProbeSucceeded, Latency: noLatency}
	return p
}

// indexOf returns the number in the name of newProxy's i-th proxy.
func indexOf(key types.NamespacedName) (int, error) {
	return strconv.Atoi(strings.TrimPrefix(key.Name, namePrefix))
}

// probeEvery is the health check that the operator has by default, of the origin.
func probeEvery(interval time.Duration, ca []byte) v1alpha1.Probe {
	return v1alpha1.Probe{
		URL: "https://" + originHost + "/", ExpectedStatus: http.StatusNoContent, CABundle: ca,
		Interval: interval, Timeout: v1alpha1.DefaultProbeTimeout,
		SuccessThreshold: int(v1alpha1.DefaultSuccessThreshold), FailureThreshold: int(v1alpha1.DefaultFailureThreshold),
	}
}
