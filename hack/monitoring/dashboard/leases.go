package dashboard

func leases() Row {
	return Row{Title: "Leases", Panels: []Panel{
		one("Requests for a lease, by outcome", "reqps", `sum by (outcome) (rate(proxy_operator_lease_requests_total{@}[r]))`, "{{outcome}}",
			"no_match is a 409. not_leader is answered by a standby: harmless while clients try again, as pkg/client does.").stacked().read("api.md"),
		one("Requests without a match, by cause", "reqps", `sum by (cause) (rate(proxy_operator_lease_no_match_total{@}[r]))`, "{{cause}}",
			"What kept most proxies back: no_proxy: nothing matches namespace and selector; unavailable: unhealthy, cordoned, not there yet; at_capacity: every lease is taken; cooldown: they rest for the target.").stacked().read("runbooks/EgressPoolStarved.md"),
		one("Leases held", "short", `max(proxy_operator_leases_active{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "held", "Leases that live at this moment. They begin anew with another leader."),
		quantiles("Latency of an answer at once", "proxy_operator_lease_request_duration_seconds", `@,wait="false"`,
			"How long requests without waitSeconds take in the operator.").read("runbooks/EgressLeaseSlow.md"),
		quantiles("Latency of requests that may wait", "proxy_operator_lease_request_duration_seconds", `@,wait="true"`,
			"Requests with waitSeconds: how long they queue for a proxy. Near what they allow, the pool is too small."),
		one("Requests that wait", "short", `max(proxy_operator_lease_requests_waiting{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "waiting", "Requests that are queued for a proxy at this moment.").read("runbooks/EgressWaitersPileUp.md"),
		one("Leases ended, by how", "ops", `sum by (how) (rate(proxy_operator_leases_ended_total{@}[r]))`, "{{how}}",
			"released: given back; expired: a crawler died, or does not release; gone: the instance went, by replacement, deletion or loss.").stacked(),
	}}
}

func api() Row {
	return Row{Title: "Discovery API", Panels: []Panel{
		one("Requests, by status", "reqps", `sum by (code) (rate(proxy_operator_discovery_requests_total{@}[r]))`, "{{code}}",
			"All operations of the API by HTTP status.").stacked().read("runbooks/EgressDiscoveryErrors.md"),
		one("Latency, 99th percentile by operation", "s",
			`histogram_quantile(0.99, sum by (le, route) (rate(proxy_operator_discovery_request_duration_seconds_bucket{@}[r])))`, "{{route}}",
			"Requests for a lease that may wait are in here with their wait."),
		one("Connections, by replica", "short", `sum by (instance) (proxy_operator_discovery_connections{@})`, "{{instance}}",
			"Bounded by --discovery-max-connections; more wait to be accepted.").read("runbooks/EgressDiscoveryConnectionsHigh.md"),
		one("TLS handshakes that fail, by reason", "ops", `sum by (reason) (rate(proxy_operator_discovery_tls_handshake_failures_total{@}[r]))`, "{{reason}}",
			"Crawlers that refuse the certificate, or speak plain HTTP.").stacked().read("runbooks/EgressCertificateExpires.md"),
	}}
}
