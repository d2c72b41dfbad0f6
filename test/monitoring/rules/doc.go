// Package rules tests the alerts of config/components/monitoring: each fires on its symptom, not on what only looks like it,
// and ends; each has a page of its own in docs/runbooks; and nothing speaks of a metric that docs/metrics.md does not have.
package rules
