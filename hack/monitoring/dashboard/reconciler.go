package dashboard

func reconciler() Row {
	return Row{Title: "Reconciler", Panels: []Panel{
		one("Passes, by result", "ops", `sum by (result) (rate(proxy_operator_reconcile_passes_total{@}[r]))`, "{{result}}",
			"dropped: somebody wrote in between, the pass comes again; error: the API server, or a fault of the operator.").stacked().read("runbooks/EgressReconcileErrors.md"),
		one("Passes, by what they saw", "ops", `sum by (seen) (rate(proxy_operator_reconcile_passes_total{@}[r]))`, "{{seen}}",
			"The row of the state table (docs/guarantees.md) that each pass took.").stacked().read("guarantees.md"),
		one("Failures at backends, by reason", "ops", `sum by (provider, reason) (rate(proxy_operator_reconcile_failures_total{@p}[r]))`, "{{provider}} {{reason}}",
			"Failures that passes met, by the reason that the Proxy's condition shows.").stacked().read("runbooks/EgressBackendFailures.md"),
		one("Replacements since the start, by cause", "short", `sum by (provider, cause) (proxy_operator_replacements_total{@p})`, "{{provider}} {{cause}}",
			"Each step is one. A rate would not show the first. spec: the spec changed; annotation: somebody asked; unhealthy: replaceUnhealthyAfter; stopped: the instance had stopped."),
		one("Instances lost since the start", "short", `sum by (provider) (proxy_operator_instances_lost_total{@p})`, "{{provider}}", "Instances that went without the operator's doing: preempted, killed, deleted by hand.").read("runbooks/EgressInstancesLost.md"),
		one("Queue, by priority", "short", `sum by (priority) (workqueue_depth{@,controller="proxy"})`, "priority {{priority}}",
			"Passes that are due. Steady state has a low priority: it may queue while everything else must not.").stacked().read("runbooks/EgressQueueStarved.md"),
		quantiles("Wait in the queue", "workqueue_queue_duration_seconds", `@,controller="proxy"`, "From when a pass is due until it begins.").read("runbooks/EgressQueueSlow.md"),
		one("Workers", "short", `sum(controller_runtime_active_workers{@,controller="proxy"})`, "busy", "Passes at one time, and --max-concurrent-reconciles.").
			also(`max(controller_runtime_max_concurrent_reconciles{@,controller="proxy"})`, "limit").read("flags.md"),
		one("Requests to the API server, by status", "reqps", `sum by (code) (rate(rest_client_requests_total{@}[r]))`, "{{code}}", "409 is a write that met another one, 429 an API server that asks for patience.").stacked(),
	}}
}

func collector() Row {
	return Row{Title: "Garbage collection", Panels: []Panel{
		one("Orphans in the last sweep", "short", `max by (provider) (proxy_operator_gc_orphans{@p})`, "{{provider}}", "Instances without a Proxy, whatever is done about them.").read("runbooks/EgressOrphansStay.md"),
		one("Orphans deleted since the start", "short", `sum by (provider) (proxy_operator_orphans_deleted_total{@p})`, "{{provider}}", "Orphans that the collector has removed."),
		one("Orphans held by the breaker", "short", `max by (provider, digest) (proxy_operator_gc_breaker_held{@p})`, "{{provider}} {{digest}}",
			"A sweep would have deleted too many at once. The digest approves of exactly this set.").read("runbooks/EgressOrphanBreakerHeld.md"),
		one("Failures", "ops", `sum by (provider, op) (rate(proxy_operator_gc_failures_total{@p}[r]))`, "{{provider}} {{op}}", "What the collector could not do, by what it was about. proxies, of no provider: the Proxies could not be read, so the sweep did not take place.").stacked().read("runbooks/EgressCollectorFailing.md"),
		one("Time since the last sweep", "s", `time() - (max(proxy_operator_gc_last_sweep_timestamp_seconds{@}) > 0)`, "since the last",
			"Beyond a few times --gc-interval nothing is collected.").also(`max(proxy_operator_gc_sweep_duration_seconds{@})`, "took").read("runbooks/EgressCollectorNotSweeping.md"),
	}}
}
