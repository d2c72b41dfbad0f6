package metrics_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

var (
	_ health.Recorder              = (*metrics.Metrics)(nil)
	_ health.TargetRefusalRecorder = (*metrics.Metrics)(nil)
	_ health.SharedCauseRecorder   = (*metrics.Metrics)(nil)
	_ discovery.LeaseMetrics       = (*metrics.Metrics)(nil)
	_ instrument.RequestRecorder   = (*metrics.Metrics)(nil)
)

type fixture struct {
	*metrics.Metrics
	registry *prometheus.Registry
	store    *fleet.Store
	leases   int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{registry: prometheus.NewPedanticRegistry(), store: fleet.NewStore()}
	m, err := metrics.New(f.registry, f.store, func() int { return f.leases })
	if err != nil {
		t.Fatal(err)
	}
	f.Metrics = m
	return f
}

// scrape returns the lines of a scrape without comments.
func (f *fixture) scrape(t *testing.T) []string {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "proxy_operator_") || family.GetHelp() == "" {
			t.Errorf("%s lacks the prefix or a help text", family.GetName())
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return slices.DeleteFunc(strings.Split(text.String(), "\n"), func(l string) bool { return l == "" || l[0] == '#' })
}

func want(t *testing.T, when string, lines []string, present bool, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if slices.Contains(lines, "proxy_operator_"+w) != present {
			t.Errorf("%s: %q present: %v, in\n%s", when, w, !present, strings.Join(lines, "\n"))
		}
	}
}

func TestEveryMethodShowsInAScrape(t *testing.T) {
	f := newFixture(t)
	want(t, "at the start", f.scrape(t), true, "leases_active 0", "healthcheck_duration_seconds_count 0")
	f.ProviderRequest("cloud", "get", "ok", 20*time.Millisecond)
	f.ProviderRequest("cloud", "get", "transient", time.Second)
	f.ObserveProbe("ns", "a", 250*time.Millisecond, true, "")
	f.ObserveProbe("ns", "b", 2*time.Second, false, v1alpha1.ReasonTimeout)
	f.ObserveProbe("ns", "b", time.Second, false, v1alpha1.ReasonTimeout)
	f.ObserveTargetRefusal("ns", "b")
	f.SetSharedCauses(2)
	f.LeaseRequest(discovery.OutcomeGranted)
	f.leases = 7
	want(t, "after one of each", f.scrape(t), true,
		`provider_requests_total{op="get",provider="cloud",result="ok"} 1`,
		`provider_requests_total{op="get",provider="cloud",result="transient"} 1`,
		`provider_request_duration_seconds_count{op="get",provider="cloud"} 2`,
		`provider_request_duration_seconds_sum{op="get",provider="cloud"} 1.02`,
		`healthcheck_duration_seconds_count 3`,
		`healthcheck_duration_seconds_sum 3.25`,
		`healthcheck_last_duration_seconds{namespace="ns",proxy="a"} 0.25`,
		`healthcheck_last_duration_seconds{namespace="ns",proxy="b"} 1`,
		`healthcheck_failures_total{namespace="ns",proxy="a"} 0`,
		`healthcheck_failures_total{namespace="ns",proxy="b"} 2`,
		`healthcheck_target_refusals_total{namespace="ns",proxy="b"} 1`,
		`healthcheck_shared_causes 2`,
		`lease_requests_total{outcome="granted"} 1`,
		`leases_active 7`,
	)
}

func TestForgetRemovesTheSeriesOfOneProxy(t *testing.T) {
	f := newFixture(t)
	for _, n := range []string{"a", "b"} {
		f.ObserveProbe("ns", n, time.Second, false, "")
		f.ObserveTargetRefusal("ns", n)
	}
	f.Forget("ns", "a")
	f.Forget("ns", "never seen")
	lines := f.scrape(t)
	for _, l := range lines {
		if strings.Contains(l, `proxy="a"`) {
			t.Errorf("left behind: %s", l)
		}
	}
	want(t, "the other", lines, true, `healthcheck_failures_total{namespace="ns",proxy="b"} 1`, "healthcheck_duration_seconds_count 2")
}

func TestPhasesAreCountedAtTheScrape(t *testing.T) {
	f := newFixture(t)
	put := func(n string, phase v1alpha1.Phase) {
		f.store.Apply(&fleet.Proxy{Key: types.NamespacedName{Namespace: "ns", Name: n}, UID: n, Phase: phase})
	}
	put("a", v1alpha1.PhaseReady)
	put("b", v1alpha1.PhaseReady)
	put("c", v1alpha1.PhaseFailed)
	put("d", "")
	want(t, "four Proxies", f.scrape(t), true, `proxies{phase="Ready"} 2`, `proxies{phase="Failed"} 1`, `proxies{phase="Pending"} 1`)
	put("a", v1alpha1.PhaseUnhealthy)
	f.store.Remove(types.NamespacedName{Namespace: "ns", Name: "c"}, "c")
	lines := f.scrape(t)
	want(t, "after changes", lines, true, `proxies{phase="Ready"} 1`, `proxies{phase="Unhealthy"} 1`)
	want(t, "after changes", lines, false, `proxies{phase="Failed"} 1`)
}

func TestRegisteringTwiceIsAnError(t *testing.T) {
	f := newFixture(t)
	if _, err := metrics.New(f.registry, f.store, func() int { return 0 }); err == nil {
		t.Error("the same names were registered twice")
	}
}
