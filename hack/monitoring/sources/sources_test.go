package sources_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/sources"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"rate(proxy_operator_a_total[5m]) + proxy_operator_b":           {"proxy_operator_a_total", "proxy_operator_b"},
		"proxy_operator_b, proxy_operator_b":                            {"proxy_operator_b"},
		"proxy_operator_a_seconds_bucket proxy_operator_a_seconds_sum":  {"proxy_operator_a_seconds"},
		"proxy_operator_in_bucket":                                      {"proxy_operator_in_bucket"},
		"all begin with `proxy_operator_`; proxy_operator_lease_* too":  nil,
		"job_outcome:proxy_operator_a:rate5m":                           nil,
		"job:proxy_operator_a + proxy_operator_b:sum":                   nil,
		"max(job_phase:proxy_operator_proxies:max) + proxy_operator_x{": {"proxy_operator_x"},
		"`proxy_operator_leader`.":                                      {"proxy_operator_leader"},
	} {
		if got := sources.Names(text); !slices.Equal(got, want) {
			t.Errorf("%s names %v, want %v", text, got, want)
		}
	}
}

func TestExposed(t *testing.T) {
	t.Parallel()
	got, err := sources.Exposed(strings.NewReader("# HELP proxy_operator_only_help x\n# TYPE a counter\na 1\nb{x=\"proxy_operator_y 1\"} 2\nc_seconds_bucket{le=\"1\"} 1\nc_seconds_sum 1\nc_seconds_count 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"a", "b", "c_seconds"}) {
		t.Errorf("exposed are %v", names)
	}
}

func TestNamesInPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, text := range map[string]string{"a.md": "proxy_operator_x", "sub/b.md": "proxy_operator_x proxy_operator_y", "c.txt": "proxy_operator_z"} {
		write(t, filepath.Join(dir, file), text)
	}
	got, err := sources.NamesInPages(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string][]string{"proxy_operator_x": {"a.md", "sub/b.md"}, "proxy_operator_y": {"sub/b.md"}}; !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

const rule = `apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
spec:
  groups:
  - name: %
    interval: 7s
    rules:
    - {alert: A%, expr: up == 0, for: 1m}
    - {record: "r:%", expr: sum(up)}
`

func TestReadRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.yaml"), strings.ReplaceAll(rule, "%", "1")+"---\nkind: PodMonitor\nspec: {}\n---\n"+strings.ReplaceAll(rule, "%", "2"))
	write(t, filepath.Join(dir, "two.yaml"), strings.ReplaceAll(rule, "%", "3"))
	r, err := sources.ReadRules(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(r.Exprs)); !slices.Equal(names, []string{"A1", "A2", "A3", "r:1", "r:2", "r:3"}) {
		t.Errorf("the rules are %v", names)
	}
	text, err := r.File()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "interval: 7s") != 3 || !strings.HasPrefix(string(text), "groups:\n") || strings.Contains(string(text), "kind") {
		t.Errorf("the file for Prometheus is\n%s", text)
	}
}

func TestReadRulesRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":            "kind: PodMonitor\n",
		"a name twice":       strings.ReplaceAll(rule+"---\n"+rule, "%", "1"),
		"no expression":      "kind: PrometheusRule\nspec: {groups: [{name: a, rules: [{alert: A}]}]}\n",
		"no name":            "kind: PrometheusRule\nspec: {groups: [{name: a, rules: [{expr: up}]}]}\n",
		"what is not YAML":   "kind: [",
		"groups of no shape": "kind: PrometheusRule\nspec: {groups: 1}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "one.yaml"), text)
			if r, err := sources.ReadRules(dir); err == nil {
				t.Errorf("read %v", r)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
