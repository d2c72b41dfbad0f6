package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root      = "../../.."
	component = root + "/config/components/monitoring"
	runbooks  = root + "/docs/runbooks"
)

// rule is what a PrometheusRule has of a rule.
type rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// file is the content of one PrometheusRule, which is what Prometheus itself reads but for the wrapping.
type file struct {
	name   string
	groups []group
}

func (f file) write(t *testing.T, dir string) {
	t.Helper()
	data, err := yaml.Marshal(map[string]any{"groups": f.groups})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, f.name), data, 0o600))
}

// load reads all PrometheusRules of the component.
func load(t *testing.T) (files []file) {
	t.Helper()
	for _, path := range glob(t, component, "*.yaml") {
		var object struct {
			Kind string `json:"kind"`
			Spec struct {
				Groups []group `json:"groups"`
			} `json:"spec"`
		}
		must(t, yaml.Unmarshal(read(t, path), &object))
		if object.Kind == "PrometheusRule" {
			files = append(files, file{filepath.Base(path), object.Spec.Groups})
		}
	}
	if len(files) == 0 {
		t.Fatal("no PrometheusRule in ", component)
	}
	return files
}

// alerts returns all alerts, sorted by name.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	for _, f := range load(t) {
		for _, g := range f.groups {
			for _, r := range g.Rules {
				if r.Alert != "" {
					all = append(all, r)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b rule) int { return strings.Compare(a.Alert, b.Alert) })
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(paths) == 0 {
		t.Fatalf("nothing matches %s in %s", pattern, dir)
	}
	return paths
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
