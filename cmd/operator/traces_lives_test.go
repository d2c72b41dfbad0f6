package main

import (
	"strings"
	"testing"
)

// TestTracesOfHosts records by gRPC what the operator sends while instances live on hosts.
func TestTracesOfHosts(t *testing.T) {
	t.Parallel()
	x := newStage(t)
	x.backends = []*backend{x.local(97), x.kvm(), x.unreachable()}
	x.start(clientSpan, sending("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", x.receiver.GRPC, "grpc"), "--trace-health-probes")
	lost := x.backends[2]
	const managed = "Reconcile Proxy > reconcile.managed"
	failed := []seen{
		{managed + " > provider.plan[kvm]", lost.entry, "transient"},
		{managed + " > provider.plan[kvm] > kvm.NodeGetMemoryStats > kvm.dial", lost.entry, "Error"},
		{"providerhealth.check[kvm]", lost.entry, "Error"},
		{"provider.list[kvm]", lost.entry, "transient"},
		{"health.probe", "", "Unset"},
	}
	failed = append(failed, leased()...)
	wanted := x.life(x.backends[2:], failed)
	all := x.finish(true, wanted, "the server of images", "the probes' target")
	links := 0
	for _, s := range all.all {
		if len(s.GetLinks()) > 0 {
			links++
			asking := all.byID[string(s.GetLinks()[0].GetSpanId())]
			if len(s.GetLinks()) != 1 || s.GetName() != "kvm.download" || asking.GetName() != "provider.plan" {
				t.Errorf("%s is linked to %s", all.path(s), asking.GetName())
			}
		}
	}
	if links != 2 {
		t.Errorf("%d downloads are linked to what has asked for them, want one for each host", links)
	}
}

// TestTracesOfClouds records by HTTP what the operator sends while instances live behind APIs, some of which do not work.
func TestTracesOfClouds(t *testing.T) {
	t.Parallel()
	x := newStage(t)
	x.backends = []*backend{x.gcp(98), x.kubernetes(99), x.broken(), x.denied(), x.refusing(), x.quoting()}
	x.start(clientSpan, sending("OTEL_EXPORTER_OTLP_ENDPOINT", x.receiver.HTTP, "http/protobuf"), loopbackAllowed)
	createExternal(t, x.c, x.ns, "external", startForwardProxy(t))
	const managed = "Reconcile Proxy > reconcile.managed"
	failed := []seen{
		{managed + " > provider.create[gcp]", x.backends[2].entry, "transient"},
		{managed + " > provider.create[gcp] > HTTP GET", x.backends[2].entry, "Error"},
		{"provider.list[gcp]", x.backends[3].entry, "denied"}, // which shuts the gate for everything else
		{"provider.list[gcp]", x.backends[4].entry, "transient"},
		{managed + " > provider.create[gcp]", x.backends[5].entry, "permanent"},
		{managed + " > provider.create[gcp] > HTTP POST", x.backends[5].entry, "Error"},
		{"Reconcile Proxy > status.patch > HTTP PATCH", "", "Unset"},
	}
	for _, b := range x.backends[2:5] {
		failed = append(failed, seen{"provider.list[gcp]", b.entry, ""}, seen{"provider.list[gcp] > HTTP GET", b.entry, "Error"}, seen{"providerhealth.check[gcp]", b.entry, "Error"})
	}
	failed = append(failed, leased()...)
	wanted := x.life(x.backends[2:], failed)
	all := x.finish(false, wanted, "Compute Engine", "a VM", "a Pod", "the API server of Pods", "quoting", "broken", "denied")
	x.onlyRequests(all)
	for _, s := range all.all {
		if !strings.HasPrefix(s.GetName(), "HTTP ") {
			continue
		}
		status, failure := value(s, "http.response.status_code"), value(s, "error.type")
		if want, ok := map[string][2]string{
			x.backends[2].entry: {"503", "503"}, x.backends[3].entry: {"401", "401"}, x.backends[4].entry: {"", "net.dial"},
		}[all.entry(s)]; ok && want != [2]string{status, failure} {
			t.Errorf("%s of %s: status %q, error %q, want %q", all.path(s), all.entry(s), status, failure, want)
		}
	}
}
