package main

import (
	"strings"
	"testing"
)

// Of two operators the leader alone checks providers, and the other one once it leads.
func TestTheLeaderAloneChecksProviders(t *testing.T) {
	t.Parallel()
	x := newCloudOnHost(t, 96)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	var metrics [2]string
	var replicas [2]*operatorProcess
	checks := func(i int) bool {
		return strings.Contains(scrape(t, metrics[i]), `proxy_operator_provider_check_timestamp_seconds{provider="`+x.named("cloud")+`"`)
	}
	for i := range replicas {
		metrics[i] = freeAddress(t)
		replicas[i] = x.start("--leader-elect", "--leader-election-lease-duration=5s", "--provider-check-interval=1s", "--metrics-bind-address", metrics[i])
		if i == 0 {
			until(t, "the leader checks", func() bool { return checks(0) })
		}
	}
	until(t, "the other one is up", func() bool { return strings.Contains(scrape(t, metrics[1]), "proxy_operator_leases_active") })
	before := x.emulator.Calls("disks.aggregatedList")
	until(t, "some more calls", func() bool { return x.emulator.Calls("disks.aggregatedList") > before+3 })
	if checks(1) {
		t.Error("the one that does not lead checks, too")
	}
	if err := replicas[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the other one checks", func() bool { return checks(1) })
	if err := replicas[1].stop(t); err != nil {
		t.Error(err)
	}
}
