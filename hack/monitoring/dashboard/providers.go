package dashboard

func providers() Row {
	return Row{Title: "Providers", Panels: []Panel{
		one("Calls, by operation and result", "reqps", `sum by (provider, op, result) (rate(proxy_operator_provider_requests_total{@p}[r]))`, "{{provider}} {{op}} {{result}}",
			"Calls of the backends by class of the result. NotFound is an expected answer to get.").stacked().read("runbooks/EgressProviderErrors.md"),
		one("Latency, 99th percentile by operation", "s",
			`histogram_quantile(0.99, sum by (le, provider, op) (rate(proxy_operator_provider_request_duration_seconds_bucket{@p}[r])))`, "{{provider}} {{op}}",
			"A call has --provider-call-timeout."),
		one("Calls in flight", "short", `sum by (provider) (proxy_operator_provider_calls_in_flight{@p})`, "{{provider}}", "At most four for each target: a host, a project."),
		one("Calls refused by the guard", "ops", `sum by (provider, why) (rate(proxy_operator_provider_calls_refused_total{@p}[r]))`, "{{provider}} {{why}}",
			"busy: four calls are in flight; unreachable and denied: the target's gate is shut; retired: the entry was replaced. The pass comes back later.").stacked().read("provider-health.md"),
		one("Gates shut, by cause", "short", `max by (provider, cause) (proxy_operator_provider_gates_shut{@p})`, "{{provider}} {{cause}}",
			"Targets whose Proxies wait with ProviderUnavailable while one canary tries.").read("runbooks/EgressProviderGateShut.md"),
		one("Targets that answer", "short", `max by (provider, target) (proxy_operator_provider_target_up{@p})`, "{{provider}} {{target}}",
			"1 while the target's last check was good. The leader alone checks.").read("runbooks/EgressProviderTargetDown.md"),
		one("Duration of checks", "s", `max by (provider, target) (proxy_operator_provider_check_duration_seconds{@p})`, "{{provider}} {{target}}", "The last check of each target.").read("provider-health.md"),
		one("Age of the last check", "s", `time() - max by (provider, target) (proxy_operator_provider_check_timestamp_seconds{@p})`, "{{provider}} {{target}}",
			"Grows beyond --provider-check-interval when checks hang or nobody leads.").read("runbooks/EgressProviderChecksStale.md"),
		one("Instances observed", "short", `max by (provider) (proxy_operator_observed_instances{@p})`, "{{provider}}", "Instances of this installation in the last list of each provider."),
		one("Age of the last list", "s", `time() - max by (provider) (proxy_operator_observation_timestamp_seconds{@p})`, "{{provider}}",
			"Counted from the beginning of the last list that succeeded. Beyond a few times --drift-poll the operator does not see what becomes of instances.").read("runbooks/EgressObservationStale.md"),
		one("Lists that failed", "ops", `sum by (provider) (rate(proxy_operator_observation_failures_total{@p}[r]))`, "{{provider}}", "Lists of instances that ended with an error.").read("runbooks/EgressObservationStale.md"),
	}}
}
