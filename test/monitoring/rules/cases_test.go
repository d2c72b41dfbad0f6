package rules

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// unit is one unit test of promtool, named after its alert.
type unit struct {
	Name   string `json:"name"`
	Series []struct {
		Series string `json:"series"`
	} `json:"input_series"`
	Alerts []struct {
		Name string `json:"alertname"`
		At   string `json:"eval_time"`
		Want []struct {
			Labels map[string]string `json:"exp_labels"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

func units(t *testing.T) map[string]unit {
	t.Helper()
	all := map[string]unit{}
	for _, path := range glob(t, "testdata", "*.yaml") {
		var content struct {
			Tests []unit `json:"tests"`
		}
		must(t, yaml.Unmarshal(read(t, path), &content))
		for _, u := range content.Tests {
			if _, twice := all[u.Name]; twice || u.Name == "" {
				t.Errorf("%s: a test named %q is there twice, or has no name", path, u.Name)
			}
			all[u.Name] = u
		}
	}
	return all
}

// TestEveryAlertIsTestedBeforeDuringAndAfter: quiet at first, firing, quiet again, with something beside it that must not fire.
func TestEveryAlertIsTestedBeforeDuringAndAfter(t *testing.T) {
	t.Parallel()
	tested := units(t)
	for _, a := range alerts(t) {
		u, ok := tested[a.Alert]
		if !ok {
			t.Errorf("%s has no unit test", a.Alert)
			continue
		}
		delete(tested, a.Alert)
		var course []string
		var last time.Duration
		for _, c := range u.Alerts {
			at, err := time.ParseDuration(c.At)
			must(t, err)
			if c.Name != a.Alert || at < last {
				t.Errorf("%s: the case at %s is out of place", a.Alert, c.At)
			}
			last = at
			if len(c.Want) > 0 {
				course = append(course, "fires")
			} else {
				course = append(course, "quiet")
			}
			for _, want := range c.Want {
				if strings.HasPrefix(want.Labels["job"], "near") {
					t.Errorf("%s: %s is expected to fire", a.Alert, want.Labels["job"])
				}
			}
		}
		if got := strings.Join(course, " "); got != "quiet fires quiet" {
			t.Errorf("%s: the course is %q", a.Alert, got)
		}
		near := false
		for _, s := range u.Series {
			near = near || strings.Contains(s.Series, `job="near`)
		}
		// absent() knows no jobs; its near miss is one of two replicas that goes.
		if !near && !strings.HasPrefix(a.Expr, "absent(") {
			t.Errorf("%s: nothing beside the symptom", a.Alert)
		}
	}
	for name := range tested {
		t.Errorf("the test %s is of no alert", name)
	}
}

// TestAnnotationsSpeakOfLabelsThatAreThere: a label that an alert lacks would leave a gap in its text.
func TestAnnotationsSpeakOfLabelsThatAreThere(t *testing.T) {
	t.Parallel()
	used := regexp.MustCompile(`\$labels\.(\w+)`)
	tested := units(t)
	for _, a := range alerts(t) {
		for _, c := range tested[a.Alert].Alerts {
			for _, want := range c.Want {
				for key, text := range a.Annotations {
					for _, m := range used.FindAllStringSubmatch(text, -1) {
						if _, ok := want.Labels[m[1]]; !ok {
							t.Errorf("%s: %s speaks of the label %s, the alert has %v", a.Alert, key, m[1], want.Labels)
						}
					}
				}
			}
		}
	}
}
