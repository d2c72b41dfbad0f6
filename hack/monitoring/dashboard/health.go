package dashboard

func health() Row {
	return Row{Title: "Health", Panels: []Panel{
		one("Probes, by result", "ops", `sum by (reason) (rate(proxy_operator_healthcheck_results_total{@}[r]))`, "{{reason}}",
			"Every probe by the reason that it would give the condition Healthy.").stacked().read("unhealthy.md"),
		quantiles("Duration of probes", "proxy_operator_healthcheck_duration_seconds", "@", "The whole fleet's. Timeouts count with the time they took."),
		one("Shared causes and judge", "short", `max(proxy_operator_healthcheck_shared_causes{@})`, "URLs held",
			"Probe URLs whose verdicts are held, and whether the judge URL answers (only with --judge-url).").
			also(`max(proxy_operator_healthcheck_judge_up{@})`, "judge answers").read("runbooks/EgressSharedCauseSuspected.md"),
		one("Probes in flight and their limit, by lane", "short", `sum by (lane) (proxy_operator_healthcheck_probes_in_flight{@})`, "{{lane}}",
			"Probes younger than a second run in the fast lane, older ones and those of proxies that failed last in the slow one.").
			also(`max by (lane) (proxy_operator_healthcheck_probes_limit{@})`, "limit {{lane}}").read("flags.md"),
		one("Probes that are due and wait, by lane", "short", `sum by (lane) (proxy_operator_healthcheck_probes_overdue{@})`, "{{lane}}",
			"More than none for long: the lane is full.").read("runbooks/EgressProbesLate.md"),
		one("How late the latest probe is, by lane", "s", `max by (lane) (proxy_operator_healthcheck_delay_seconds{@})`, "{{lane}}",
			"The age of the probe that is due the longest. Verdicts get old with it.").read("runbooks/EgressProbesLate.md"),
		one("Slowest proxies", "s", `topk(10, max by (namespace, proxy) (proxy_operator_healthcheck_last_duration_seconds{@n}))`, "{{namespace}}/{{proxy}}",
			"The last probe of each Proxy, the ten slowest. Their namespaces are right where the scrape honours labels, see docs/monitoring.md.").read("monitoring.md"),
		one("Proxies that fail most", "ops", `topk(10, sum by (namespace, proxy) (rate(proxy_operator_healthcheck_failures_total{@n}[r])) > 0)`, "{{namespace}}/{{proxy}}",
			"Failed probes, the ten Proxies with the most.").read("unhealthy.md"),
		one("Proxies that the probe's target refuses", "ops",
			`topk(10, sum by (namespace, proxy) (rate(proxy_operator_healthcheck_target_refusals_total{@n}[r])) > 0)`, "{{namespace}}/{{proxy}}",
			"The target answered 401, 403 or 429 through a proxy that forwarded: it is about the target.").read("unhealthy.md"),
	}}
}
