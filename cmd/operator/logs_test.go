package main

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/logtest"
)

// lines returns what the operator has logged so far, and what is wrong with it. A process that cannot work says so at last in
// plain text, which is for the terminal.
func (p *operatorProcess) lines() ([]logtest.Line, []error) {
	text := p.log.String()
	if strings.HasPrefix(text, "operator: ") {
		return nil, nil
	}
	if before, _, ended := strings.Cut(text, "\noperator: "); ended {
		text = before + "\n"
	}
	return logtest.ParseAll(text)
}

// checkLog fails the test when a line of the log is not what it has to be. It is called at the end of each process.
func (p *operatorProcess) checkLog(t *testing.T) {
	t.Helper()
	_, problems := p.lines()
	for _, problem := range problems {
		t.Errorf("log: %v", problem)
	}
}

// TestAFleetAtRestLogsNothing watches a healthy fleet through dozens of rounds of everything that is done again and again: lists,
// checks, probes, sweeps, elections and requests, good and bad ones.
func TestAFleetAtRestLogsNothing(t *testing.T) {
	t.Parallel()
	x := newCloudOnHost(t, 88)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	metrics := freeAddress(t)
	p := x.start("--gc-interval=10s", "--gc-allow-namespaced", "--provider-check-interval=1s", "--provider-health-report-interval=1s",
		"--min-report-interval=1s", "--leader-elect", "--leader-election-lease-duration=30s", "--metrics-bind-address", metrics, loopbackAllowed)
	names := []string{"one", "two", "three"}
	for _, name := range names {
		x.create(name, "cloud")
	}
	createExternal(t, x.c, x.ns, "external", startForwardProxy(t))
	for _, name := range append(names, "external") {
		until(t, name+" Ready", func() bool { return x.ready(name) })
	}
	swept := ""
	sweep := func() bool {
		now := sample(scrape(t, metrics), "proxy_operator_gc_last_sweep_timestamp_seconds")
		fresh := now != "" && now != swept
		swept = now
		return fresh
	}
	until(t, "a sweep", sweep)
	until(t, "the last word about it", func() bool {
		return strings.Contains(p.log.String(), "targets are ready") || strings.Contains(p.log.String(), "target is ready")
	})
	before, lists, instance := p.log.String(), x.emulator.Calls("instances.aggregatedList"), x.get("one").Status.ProviderID
	crawler := p.crawler(t, "t0ken-of-the-test")
	for range 2 {
		until(t, "another sweep", func() bool {
			if got := crawler.lease("", "{}"); got.status == 201 {
				crawler.send("DELETE", "/v1/leases/"+got.LeaseID, "", "")
			}
			crawler.lease("", `{"selector":`)
			crawler.lease("", `{"selector":{"no":"such"}}`)
			p.crawler(t, "wrong").get("/v1/proxies")
			return sweep()
		})
	}
	if said, _ := strings.CutPrefix(p.log.String(), before); said != "" {
		t.Errorf("at rest it says\n%s", said)
	}
	if n := x.emulator.Calls("instances.aggregatedList") - lists; n < 10 || x.get("one").Status.ProviderID != instance {
		t.Errorf("%d lists; the instance was %s, and is %s", n, instance, x.get("one").Status.ProviderID)
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
