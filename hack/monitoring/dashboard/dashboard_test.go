package dashboard_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/sources"
)

const root = "../../.."

var update = flag.Bool("update", false, "write the file") //nolint:gochecknoglobals // a test's flag

// It runs before all others, which read what it may write.
func TestTheFileIsUpToDate(t *testing.T) {
	want, err := dashboard.Build(dashboard.Rows()).Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, dashboard.File)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the rows describe; run go test ./hack/monitoring/dashboard -run TestTheFileIsUpToDate -update", dashboard.File)
	}
}

func shipped(t *testing.T) dashboard.Document {
	t.Helper()
	d, err := dashboard.Read(filepath.Join(root, dashboard.File))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheFileCanBeImported(t *testing.T) {
	t.Parallel()
	d := shipped(t)
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	if len(d.Inputs) != 1 || d.Inputs[0].Name != "DS_PROMETHEUS" || d.Inputs[0].Type != "datasource" {
		t.Errorf("it asks for %v, want one data source", d.Inputs)
	}
	if d.SchemaVersion < 39 || d.UID == "" || len(d.UID) > 40 {
		t.Errorf("schema version %d, UID %q", d.SchemaVersion, d.UID)
	}
	if d.Templating.List[0].Current.Value != "${DS_PROMETHEUS}" {
		t.Error("what is imported with the dashboard is not what the variable shows")
	}
}

func TestEveryVariableIsThereAndUsed(t *testing.T) {
	t.Parallel()
	d := shipped(t)
	known := map[string]string{"__rate_interval": "1m", "__interval": "1m"}
	for _, v := range d.Templating.List {
		known[v.Name] = "chosen"
	}
	exprs := d.Annotations.List[0].Expr
	for _, p := range d.Graphs() {
		for _, q := range p.Targets {
			exprs += q.Expr
			if _, missing := dashboard.Substitute(q.Expr, known); missing != nil {
				t.Errorf("%s: unknown variables %v", p.Title, missing)
			}
			for _, selector := range regexp.MustCompile(`\w*\{[^}]*\}`).FindAllString(q.Expr, -1) {
				perProxy := strings.Contains(q.Expr, "by (namespace, proxy)")
				if !strings.Contains(selector, `{job=~"$job"`) || perProxy && !strings.Contains(selector, `namespace=~"$namespace"`) {
					t.Errorf("%s: %s does not choose the installation, or the namespace", p.Title, selector)
				}
			}
		}
	}
	if _, missing := dashboard.Substitute(exprs, known); missing != nil {
		t.Errorf("unknown variables %v", missing)
	}
	for name := range known {
		if name != "datasource" && !strings.Contains(exprs, "$"+name) {
			t.Errorf("no query uses $%s", name)
		}
	}
}

// TestTwoReplicasAreNotCountedTwice is about gauges of the fleet, which every replica shows whole: a sum would double them.
func TestTwoReplicasAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	perReplica := regexp.MustCompile(`proxy_operator_(leader|build_info|discovery_connections|provider_calls_in_flight|healthcheck_probes_(in_flight|overdue))\{`)
	counter := regexp.MustCompile(`(_total|_bucket|_count|_sum)\{`)
	summed := regexp.MustCompile(`sum( by \([a-z_, ]+\))? ?\((proxy_operator_\w+\{)`)
	const sinceTheStart = "since the start" // of what is rare: the rate of a counter that is born with its first event does not show it
	seen := 0
	for _, p := range shipped(t).Graphs() {
		for _, q := range p.Targets {
			for _, m := range summed.FindAllStringSubmatch(q.Expr, -1) {
				seen++
				if !perReplica.MatchString(m[2]) && !strings.Contains(p.Title, sinceTheStart) {
					t.Errorf("%s: %s sums a gauge that every replica shows", p.Title, q.Expr)
				}
			}
			for _, name := range regexp.MustCompile(`proxy_operator_\w+(_total|_bucket)\{`).FindAllString(q.Expr, -1) {
				if strings.Contains(q.Expr, "rate("+name) == strings.Contains(p.Title, sinceTheStart) {
					t.Errorf("%s: %s shows a counter where its rate is announced, or the other way round", p.Title, q.Expr)
				}
			}
			if strings.Contains(q.Expr, "rate(") && !counter.MatchString(q.Expr) {
				t.Errorf("%s: %s is the rate of a gauge", p.Title, q.Expr)
			}
		}
	}
	if seen == 0 {
		t.Error("no sum of a gauge was looked at: the pattern is wrong")
	}
}

func TestEveryMetricOfTheOperatorIsShown(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var exprs strings.Builder
	for _, p := range shipped(t).Graphs() {
		for _, q := range p.Targets {
			exprs.WriteString(q.Expr + "\n")
		}
	}
	shown := sources.Names(exprs.String())
	all := sources.Names(string(reference))
	if len(all) < 50 {
		t.Fatalf("docs/metrics.md names %d metrics: it is not read right", len(all))
	}
	for _, name := range all {
		if !slices.Contains(shown, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, name := range shown {
		if !slices.Contains(all, name) {
			t.Errorf("%s is shown, but it is none of docs/metrics.md", name)
		}
	}
}

func TestLinksLeadToPagesThatExist(t *testing.T) {
	t.Parallel()
	const prefix = "https://github.com/egress-proxies/egress-proxies-operator/blob/main/"
	d := shipped(t)
	links := d.Links
	for _, p := range d.Graphs() {
		links = append(links, p.Links...)
	}
	for _, l := range links {
		path, ok := strings.CutPrefix(l.URL, prefix)
		if _, err := os.Stat(filepath.Join(root, path)); !ok || err != nil {
			t.Errorf("%s: %v", l.URL, err)
		}
	}
}
