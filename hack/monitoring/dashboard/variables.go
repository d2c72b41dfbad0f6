package dashboard

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// refreshOnTime makes Grafana look for values again when the time that is shown changes.
const refreshOnTime = 2

func variables() []Variable {
	source := prometheus()
	labels := func(name, label, description, query, all string) Variable {
		return Variable{
			Name: name, Label: label, Description: description, Type: "query", Datasource: &source, Refresh: refreshOnTime, Sort: 1,
			Query:      map[string]any{"qryType": 1, "query": query, "refId": "Values"},
			IncludeAll: true, AllValue: all, Multi: true, Current: Current{Selected: true, Text: []string{"All"}, Value: []string{"$__all"}},
		}
	}
	return []Variable{
		{
			Name: "datasource", Label: "Data source", Description: "The Prometheus that scrapes the operator", Type: "datasource", Query: "prometheus",
			Refresh: 1, Current: Current{Text: "${DS_PROMETHEUS}", Value: "${DS_PROMETHEUS}"},
		},
		// One installation is one job, as for the alerts. All means all jobs of this operator: what controller-runtime and
		// client-go expose, others expose too.
		labels("job", "Job", "The scrape job of an installation", "label_values(proxy_operator_build_info, job)", ""),
		labels("provider", "Provider", "Entries of the providers' file", `label_values(proxy_operator_provider_requests_total{job=~"$job"}, provider)`, ".*"),
		labels("namespace", "Namespace", "Namespaces of Proxies, for graphs that show them one by one",
			`label_values(proxy_operator_healthcheck_last_duration_seconds{job=~"$job"}, namespace)`, ".*"),
	}
}

// Substitute fills in variables, in each of the three ways in which Grafana takes them: $name, ${name}, ${name:format}. It
// returns the names that values lacks, sorted; they stay as they are.
func Substitute(expr string, values map[string]string) (filled string, missing []string) {
	unknown := map[string]bool{}
	filled = reference().ReplaceAllStringFunc(expr, func(found string) string {
		name, _, _ := strings.Cut(strings.Trim(found, "${}"), ":")
		value, ok := values[name]
		if !ok {
			unknown[name] = true
			return found
		}
		return value
	})
	return filled, slices.Sorted(maps.Keys(unknown))
}

func reference() *regexp.Regexp {
	return regexp.MustCompile(`\$([A-Za-z_]\w*|\{\w+(:\w+)?\})`)
}
