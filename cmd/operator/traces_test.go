package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// tree finds spans by where they stand.
type tree struct{ byID map[string]otlptest.Span }

func treeOf(spans []otlptest.Span) tree {
	t := tree{map[string]otlptest.Span{}}
	for _, s := range spans {
		t.byID[string(s.GetSpanId())] = s
	}
	return t
}

// path is the names from the root of a span's trace down to it.
func (t tree) path(s otlptest.Span) string {
	above, ok := t.byID[string(s.GetParentSpanId())]
	switch {
	case ok:
		return t.path(above) + " > " + s.GetName()
	case len(s.GetParentSpanId()) > 0:
		return "? > " + s.GetName()
	}
	return s.GetName()
}

func (t tree) has(path string) bool {
	for _, s := range t.byID {
		if t.path(s) == path {
			return true
		}
	}
	return false
}

// TestTracesOfALife records what the operator sends while a Proxy is made, leased, replaced and deleted.
func TestTracesOfALife(t *testing.T) {
	r := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+r.GRPC)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
	x := newCloudOnHost(t, 93)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	p := x.start("--gc-interval=10s", "--gc-allow-namespaced", "--provider-check-interval=1s", "--trace-health-probes", "--log-level=2", "--drain-timeout=3s")
	x.create("one", "cloud")
	until(t, "Ready", func() bool { return x.ready("one") })
	until(t, "a lease", func() bool { return p.crawler(t, "t0ken-of-the-test").lease("", "{}").status == 201 })
	one := x.get("one")
	one.Annotations = map[string]string{"crawl.example.com/replace": "1"}
	if err := x.c.Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	until(t, "the replacement begins", func() bool { return strings.Contains(x.provisioned("one"), "Draining") })
	x.remove("one")
	untilWithin(t, 3*time.Minute, "gone", func() bool { return x.get("one").Name == "" })
	const insert = "POST"
	wanted := []string{
		"Reconcile Proxy > reconcile.managed > provider.create > HTTP " + insert,
		"Reconcile Proxy > reconcile.managed > provider.get > HTTP GET",
		"Reconcile Proxy > reconcile.managed > status.patch > HTTP PATCH",
		"Reconcile Proxy > reconcile.managed > reconcile.replaceInstance > status.patch > HTTP PATCH",
		"Reconcile Proxy > reconcile.delete > provider.delete > HTTP DELETE",
		"gc.sweep > provider.list > HTTP GET",
		"providerhealth.check",
		"POST /v1/leases",
		"health.probe",
	}
	missing := func(spans []otlptest.Span) (out []string) {
		all := treeOf(spans)
		for _, path := range wanted {
			if !all.has(path) {
				out = append(out, path)
			}
		}
		return out
	}
	r.Until(t.Context(), func(s []otlptest.Span) bool { return len(missing(s)) == 0 })
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
	spans := r.Spans()
	all := treeOf(spans)
	if m := missing(spans); len(m) > 0 {
		paths := map[string]int{}
		for _, s := range spans {
			paths[all.path(s)]++
		}
		t.Errorf("there is no %q among %v", m, paths)
	}
	for _, s := range spans {
		path := all.path(s)
		if strings.HasPrefix(path, "HTTP ") || strings.HasPrefix(path, "provider.") && !strings.HasPrefix(path, "provider.list") {
			t.Errorf("a trace begins with %s", path)
		}
		if s.GetName() == "provider.create" && s.GetKind() != traces.Span_SPAN_KIND_CLIENT {
			t.Errorf("%s is of kind %v", path, s.GetKind())
		}
		if text := fmt.Sprint(s.Span, s.Resource); strings.Contains(text, "t0ken-of-the-test") {
			t.Errorf("%s shows a token", path)
		}
	}
	if log := p.log.String(); !strings.Contains(log, `"traceID":"`) || !strings.Contains(log, `"spanID":"`) {
		t.Error("no line of the log names its span")
	}
}

// TestNoTracesUnlessAskedFor: nothing is connected to and no line has a key of traces.
func TestNoTracesUnlessAskedFor(t *testing.T) {
	r := otlptest.New(t)
	t.Setenv("OTEL_SDK_DISABLED", "True")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+r.HTTP)
	x := newCloudOnHost(t, 94)
	x.publish(providersOf(x.entry("cloud", "project-a", "")))
	p := x.start("--trace-health-probes", "--log-level=2")
	x.create("one", "cloud")
	until(t, "Ready", func() bool { return x.ready("one") })
	p.eventually(t, "/v1/proxies", 200)
	x.remove("one")
	until(t, "gone", func() bool { return x.get("one").Name == "" })
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
	log := p.log.String()
	if !strings.Contains(log, `"msg":"pass"`) || !strings.Contains(log, `"msg":"request"`) {
		t.Errorf("the log lacks what it should have at this level")
	}
	if strings.Contains(log, "traceID") || r.Connections() != 0 {
		t.Errorf("%d connections; keys in the log: %t", r.Connections(), strings.Contains(log, "traceID"))
	}
}
