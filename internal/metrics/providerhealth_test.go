package metrics_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

var _ providerhealth.Recorder = (*metrics.ProviderHealth)(nil)

func TestProviderHealth(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	p, err := metrics.NewProviderHealth(r)
	if err != nil {
		t.Fatal(err)
	}
	p.TargetChecked("kvm-a", "one", true, 1500*time.Millisecond, time.Unix(1700000000, 0))
	p.TargetChecked("kvm-a", "two", false, 0, time.Unix(1700000000, 0))
	p.TargetChecked("cloud", "project", true, 0, time.Unix(1700000060, 0))
	want := []string{
		"proxy_operator_provider_check_duration_seconds cloud/project 0", "proxy_operator_provider_check_duration_seconds kvm-a/one 1.5",
		"proxy_operator_provider_check_duration_seconds kvm-a/two 0",
		"proxy_operator_provider_check_timestamp_seconds cloud/project 1.70000006e+09", "proxy_operator_provider_check_timestamp_seconds kvm-a/one 1.7e+09",
		"proxy_operator_provider_check_timestamp_seconds kvm-a/two 1.7e+09",
		"proxy_operator_provider_target_up cloud/project 1", "proxy_operator_provider_target_up kvm-a/one 1", "proxy_operator_provider_target_up kvm-a/two 0",
	}
	if got := seriesOf(t, r); !slices.Equal(got, want) {
		t.Errorf("series: %q", got)
	}

	p.TargetGone("kvm-a", "one")
	want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, " kvm-a/one ") })
	if got := seriesOf(t, r); !slices.Equal(got, want) || len(got) != 6 {
		t.Errorf("series once a target is gone: %q", got)
	}
	p.ProviderGone("kvm-a")
	want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, " kvm-a/") })
	if got := seriesOf(t, r); !slices.Equal(got, want) || len(got) != 3 {
		t.Errorf("series once a provider is gone: %q", got)
	}
	if _, err := metrics.NewProviderHealth(r); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

// seriesOf returns "<metric> <provider>/<target> <value>" of all series, sorted.
func seriesOf(t *testing.T, r *prometheus.Registry) (out []string) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out = append(out, fmt.Sprintf("%s %s/%s %v", f.GetName(), labels["provider"], labels["target"], m.GetGauge().GetValue()))
		}
	}
	return out
}
