package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNothingSpeaksOfAMetricThatThereIsNot compares rules and pages with the reference, which is generated from what the
// operator registers.
func TestNothingSpeaksOfAMetricThatThereIsNot(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`[\w:]*\b(?:proxy_operator|controller_runtime|workqueue|leader_election|rest_client)_[\w:]+`)
	known := name.FindAllString(string(read(t, root+"/docs/metrics.md")), -1)
	// controller-runtime's, of which the reference shows a selection.
	known = append(known, "controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles")

	records := map[string]bool{}
	texts := map[string]string{}
	for _, f := range load(t) {
		for _, g := range f.groups {
			for _, r := range g.Rules {
				records[r.Record] = true
				texts[f.name] += r.Expr + "\n"
			}
		}
	}
	for _, path := range append(glob(t, runbooks, "*.md"), root+"/docs/operations.md") {
		texts[path] = string(read(t, path))
	}
	of := regexp.MustCompile(`_(bucket|sum|count)$`)
	for where, text := range texts {
		for _, m := range name.FindAllString(text, -1) {
			if strings.Contains(m, ":") {
				if !records[m] {
					t.Errorf("%s: %s is not recorded", where, m)
				}
				continue
			}
			if !slices.Contains(known, m) && !slices.Contains(known, of.ReplaceAllString(m, "")) {
				t.Errorf("%s: %s is no metric", where, m)
			}
		}
	}
}
