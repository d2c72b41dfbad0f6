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
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/discovery"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/health"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/observe"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

var (
	_ health.Recorder              = (*metrics.Metrics)(nil)
	_ health.TargetRefusalRecorder = (*metrics.Metrics)(nil)
	_ health.SharedCauseRecorder   = (*metrics.Metrics)(nil)
	_ discovery.Recorder           = (*metrics.Metrics)(nil)
	_ instrument.RequestRecorder   = (*metrics.Metrics)(nil)
	_ instrument.RefusalRecorder   = (*metrics.Metrics)(nil)
	_ observe.Recorder             = (*metrics.Metrics)(nil)
	_ gc.Recorder                  = (*metrics.Metrics)(nil)
	_ proxy.Recorder               = (*metrics.Metrics)(nil)
	_ metrics.Engine               = (*health.Engine)(nil)
)

type fixture struct {
	*metrics.Metrics
	registry *prometheus.Registry
	noting   *noting
	store    *fleet.Store
	stats    lease.Stats
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{registry: prometheus.NewPedanticRegistry(), store: fleet.NewStore()}
	f.noting = &noting{f.registry, map[string]bool{}}
	m, err := metrics.New(f.noting, f.store, func() lease.Stats { return f.stats })
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

// feed calls every method once or twice.
func (f *fixture) feed() {
	f.ProviderRequest("cloud", "get", "ok", 20*time.Millisecond)
	f.ProviderRequest("cloud", "get", "transient", time.Second)
	f.CallRefused("cloud", instrument.RefusedBusy)
	f.ObserveProbe("ns", "a", 250*time.Millisecond, true, v1alpha1.ReasonProbeSucceeded)
	f.ObserveProbe("ns", "b", 2*time.Second, false, v1alpha1.ReasonTimeout)
	f.ObserveProbe("ns", "b", time.Second, false, v1alpha1.ReasonTimeout)
	f.ObserveTargetRefusal("ns", "b")
	f.SetSharedCauses(2)
	f.LeaseRequest(discovery.OutcomeGranted, false, time.Millisecond)
	f.LeaseRequest(discovery.OutcomeNoMatch, true, 2*time.Second)
	f.NoMatch(discovery.CauseCooldown)
	f.Request("GET /v1/proxies", 200, 4*time.Millisecond)
	f.Pass("running", proxy.PassOK)
	f.Failure("cloud", v1alpha1.ReasonQuotaExceeded)
	f.Replacement("cloud", proxy.CauseSpec)
	f.InstanceLost("cloud")
	f.Listed("cloud", 7, time.Unix(1700000000, 5e8))
	f.ListFailed("cloud")
	f.OrphanDeleted("cloud")
	f.CollectionFailed("cloud", gc.OpDelete)
	f.Orphans("cloud", 5)
	f.BreakerHeld("cloud", 4, "0123456789abcdef")
	f.Swept(time.Unix(1700000000, 0), 2*time.Second)
	f.Suppressed("Normal")
	f.stats = lease.Stats{
		Live: 7, Waiting: 3, Cooldowns: 9, Proxies: lease.Standings{Free: 1, AtCapacity: 2, Cooling: 3, Unoffered: 4},
		Ended: lease.Ended{Released: 10, Expired: 11, Gone: 12}, Reports: map[lease.Result]uint64{lease.ResultBanned: 13},
	}
}

func TestEveryMethodShowsInAScrape(t *testing.T) {
	f := newFixture(t)
	want(t, "at the start", f.scrape(t), true, "leases_active 0", "healthcheck_duration_seconds_count 0",
		`lease_requests_total{outcome="no_match"} 0`, `lease_no_match_total{cause="at_capacity"} 0`, `gc_failures_total{op="proxies",provider=""} 0`,
		`proxies_withheld{reason="instance_gone"} 0`, `proxies{phase="Ready"} 0`, `events_suppressed_total{type="Warning"} 0`,
		`reconcile_passes_total{result="error",seen="external"} 0`)
	f.feed()
	want(t, "after one of each", f.scrape(t), true,
		`provider_requests_total{op="get",provider="cloud",result="ok"} 1`,
		`provider_requests_total{op="get",provider="cloud",result="transient"} 1`,
		`provider_request_duration_seconds_count{op="get",provider="cloud"} 2`,
		`provider_request_duration_seconds_sum{op="get",provider="cloud"} 1.02`,
		`provider_calls_refused_total{provider="cloud",why="busy"} 1`,
		`healthcheck_duration_seconds_count 3`,
		`healthcheck_duration_seconds_sum 3.25`,
		`healthcheck_results_total{reason="Timeout"} 2`,
		`healthcheck_last_duration_seconds{namespace="ns",proxy="a"} 0.25`,
		`healthcheck_last_duration_seconds{namespace="ns",proxy="b"} 1`,
		`healthcheck_failures_total{namespace="ns",proxy="a"} 0`,
		`healthcheck_failures_total{namespace="ns",proxy="b"} 2`,
		`healthcheck_target_refusals_total{namespace="ns",proxy="b"} 1`,
		`healthcheck_shared_causes 2`,
		`lease_requests_total{outcome="granted"} 1`,
		`lease_request_duration_seconds_count{wait="false"} 1`,
		`lease_request_duration_seconds_sum{wait="true"} 2`,
		`lease_no_match_total{cause="cooldown"} 1`,
		`leases_active 7`,
		`lease_requests_waiting 3`,
		`lease_cooldowns 9`,
		`lease_proxies{state="free"} 1`, `lease_proxies{state="at_capacity"} 2`, `lease_proxies{state="cooling"} 3`, `lease_proxies{state="unoffered"} 4`,
		`leases_ended_total{how="released"} 10`, `leases_ended_total{how="expired"} 11`, `leases_ended_total{how="gone"} 12`,
		`lease_reports_total{result="banned"} 13`,
		`discovery_requests_total{code="200",route="GET /v1/proxies"} 1`,
		`discovery_request_duration_seconds_count{route="GET /v1/proxies"} 1`,
		`reconcile_passes_total{result="ok",seen="running"} 1`,
		`reconcile_failures_total{provider="cloud",reason="QuotaExceeded"} 1`,
		`replacements_total{cause="spec",provider="cloud"} 1`,
		`instances_lost_total{provider="cloud"} 1`,
		`observed_instances{provider="cloud"} 7`,
		`observation_timestamp_seconds{provider="cloud"} 1.7000000005e+09`,
		`observation_failures_total{provider="cloud"} 1`,
		`orphans_deleted_total{provider="cloud"} 1`,
		`gc_failures_total{op="delete",provider="cloud"} 1`,
		`gc_orphans{provider="cloud"} 5`,
		`gc_breaker_held{digest="0123456789abcdef",provider="cloud"} 4`,
		`gc_last_sweep_timestamp_seconds 1.7e+09`,
		`gc_sweep_duration_seconds 2`,
		`events_suppressed_total{type="Normal"} 1`,
	)
	f.BreakerHeld("cloud", 0, "")
	want(t, "released", f.scrape(t), false, `gc_breaker_held{digest="0123456789abcdef",provider="cloud"} 4`)
}

func TestForgetRemovesTheSeriesOfOneProxy(t *testing.T) {
	f := newFixture(t)
	for _, n := range []string{"a", "b"} {
		f.ObserveProbe("ns", n, time.Second, false, v1alpha1.ReasonTimeout)
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

// TestNothingIsLeftOfAnEntry: every series with the label of a provider ends with it, and no other's.
func TestNothingIsLeftOfAnEntry(t *testing.T) {
	f := newFixture(t)
	f.feed()
	of := func(name string) (out []string) {
		for _, l := range f.scrape(t) {
			if strings.Contains(l, `provider="`+name+`"`) {
				out = append(out, l)
			}
		}
		return out
	}
	if len(of("cloud")) < 14 {
		t.Errorf("series with the entry: %q", of("cloud"))
	}
	f.ProviderRequest("other", "get", "ok", time.Second)
	f.ProviderGone("cloud")
	if left := of("cloud"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if len(of("other")) == 0 {
		t.Error("the other entry's series are gone")
	}
}

func TestTheFleetIsCountedAtTheScrape(t *testing.T) {
	f := newFixture(t)
	put := func(n string, change func(*fleet.Proxy)) {
		p := &fleet.Proxy{Key: types.NamespacedName{Namespace: "ns", Name: n}, UID: n, Mode: v1alpha1.ModeManaged}
		change(p)
		f.store.Apply(p)
	}
	put("a", func(p *fleet.Proxy) { p.Phase, p.Provisioned, p.Endpoint.Host = v1alpha1.PhaseReady, true, "192.0.2.1" })
	put("b", func(p *fleet.Proxy) { p.Phase, p.Provisioned, p.Cordoned = v1alpha1.PhaseReady, true, true })
	put("c", func(p *fleet.Proxy) { p.Phase, p.Missing = v1alpha1.PhaseFailed, v1alpha1.ReasonQuotaExceeded })
	put("d", func(*fleet.Proxy) {})
	put("e", func(p *fleet.Proxy) { p.Phase, p.Missing = "Written by others", "Written by others" })
	put("f", func(p *fleet.Proxy) { p.Mode, p.Phase = v1alpha1.ModeExternal, v1alpha1.PhaseUnhealthy })
	want(t, "six Proxies", f.scrape(t), true,
		`proxies{phase="Ready"} 2`, `proxies{phase="Failed"} 1`, `proxies{phase="Pending"} 2`, `proxies{phase="Unhealthy"} 1`, `proxies{phase="Deleting"} 0`,
		`proxies_withheld{reason="not_probed"} 1`, `proxies_withheld{reason="cordoned"} 1`, `proxies_withheld{reason="not_provisioned"} 4`,
		`proxies_not_provisioned{reason="QuotaExceeded"} 1`, `proxies_not_provisioned{reason="Provisioning"} 1`, `proxies_not_provisioned{reason="other"} 1`)
	put("a", func(p *fleet.Proxy) { p.Phase, p.Provisioned = v1alpha1.PhaseUnhealthy, true })
	f.store.Remove(types.NamespacedName{Namespace: "ns", Name: "c"}, "c")
	lines := f.scrape(t)
	want(t, "after changes", lines, true, `proxies{phase="Ready"} 1`, `proxies{phase="Unhealthy"} 2`, `proxies{phase="Failed"} 0`)
	want(t, "after changes", lines, false, `proxies_not_provisioned{reason="QuotaExceeded"} 1`)
}

type lanes struct{ up, known bool }

func (lanes) Lanes() []health.LaneStats {
	return []health.LaneStats{{Name: "fast", InFlight: 1, Limit: 64, Overdue: 2, Delay: 1500 * time.Millisecond}, {Name: "slow", Limit: 1024}}
}
func (l lanes) JudgeUp() (up, known bool) { return l.up, l.known }

type entries []registry.Handle

func (e entries) All() []registry.Handle { return e }

type idle struct{ provider.Provider }

// gauges registers what is looked up besides the fleet and its leases.
// spans has one number for each result.
type spans struct{}

func (spans) Sent() uint64    { return 7 }
func (spans) Refused() uint64 { return 8 }
func (spans) Dropped() uint64 { return 9 }

func (f *fixture) gauges(t *testing.T, l lanes) {
	t.Helper()
	guarded := instrument.WithGuard(idle{}, "cloud", clock.RealClock{})
	for _, err := range []error{
		metrics.RegisterEngine(f.noting, l),
		metrics.RegisterGuards(f.noting, entries{{Name: "cloud", Provider: guarded}, {Name: "bare", Provider: idle{}}}),
		metrics.RegisterManaged(f.noting, f.store, func(namespace, provider string) bool { return namespace == "ns" && provider == "cloud" }),
		metrics.RegisterConnections(f.noting, func() int { return 12 }),
		metrics.RegisterProcess(f.noting, metrics.Build{Version: "v1.2.3", Revision: "abc"}, func() bool { return true }),
		metrics.RegisterSpans(f.noting, spans{}),
		metrics.RegisterTokens(f.noting, func() bool { return false }),
		metrics.RegisterCertificates(f.noting, map[string]func() time.Time{
			"metrics": func() time.Time { return time.Unix(300, 0) }, "discovery": func() time.Time { return time.Time{} },
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsLookedUp(t *testing.T) {
	f := newFixture(t)
	f.gauges(t, lanes{up: true, known: true})
	want(t, "looked up", f.scrape(t), true,
		`healthcheck_probes_in_flight{lane="fast"} 1`, `healthcheck_probes_limit{lane="slow"} 1024`, `healthcheck_probes_overdue{lane="fast"} 2`,
		`healthcheck_delay_seconds{lane="fast"} 1.5`, `healthcheck_judge_up 1`,
		`provider_calls_in_flight{provider="cloud"} 0`, `provider_gates_shut{cause="denied",provider="cloud"} 0`, `provider_gates_shut{cause="unreachable",provider="cloud"} 0`,
		`discovery_connections 12`, `leader 1`, `token_file_last_reload_successful 0`, `trace_spans_total{result="sent"} 7`, `trace_spans_total{result="refused"} 8`, `trace_spans_total{result="dropped"} 9`,
		`certificate_expiry_timestamp_seconds{use="metrics"} 300`)
	if lines := strings.Join(f.scrape(t), "\n"); strings.Contains(lines, `"bare"`) || strings.Contains(lines, `use="discovery"`) || !strings.Contains(lines, `revision="abc",version="v1.2.3"} 1`) {
		t.Errorf("an entry without a guard shows, or a certificate that there is not, or what was built does not:\n%s", lines)
	}
	down, none := newFixture(t), newFixture(t)
	down.gauges(t, lanes{known: true})
	none.gauges(t, lanes{})
	want(t, "the judge URL fails", down.scrape(t), true, "healthcheck_judge_up 0")
	want(t, "without a judge URL", none.scrape(t), false, "healthcheck_judge_up 0", "healthcheck_judge_up 1")
}

func TestRegisteringTwiceIsAnError(t *testing.T) {
	f := newFixture(t)
	if _, err := metrics.New(f.registry, f.store, func() lease.Stats { return lease.Stats{} }); err == nil {
		t.Error("the same names were registered twice")
	}
}
