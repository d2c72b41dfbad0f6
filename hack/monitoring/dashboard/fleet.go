package dashboard

func fleet() Row {
	wide := func(p Panel) Panel { p.Width = 6; return p }
	return Row{Title: "Fleet", Panels: []Panel{
		wide(one("Proxies, by phase", "short", `max by (phase) (proxy_operator_proxies{@})`, "{{phase}}",
			"Every replica counts the whole fleet, so the largest count is taken, not the sum.").stacked()),
		wide(one("Proxies, by what a lease finds", "short", `max by (state) (proxy_operator_lease_proxies{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "{{state}}",
			"free: has room; at_capacity: all its leases are taken; cooling: rests for every target; unoffered: withheld, see the next panel. As the leader sees it, for a standby knows of no lease.").stacked()),
		wide(one("Proxies withheld, by reason", "short", `max by (reason) (proxy_operator_proxies_withheld{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "{{reason}}",
			"Proxies that are offered to nobody, and why. Each counts once. As the leader sees it, for a standby probes none.").stacked().read("runbooks/EgressNothingOnOffer.md")),
		wide(one("Managed Proxies not provisioned, by reason", "short", `max by (reason) (proxy_operator_proxies_not_provisioned{@})`, "{{reason}}",
			"Reasons of the condition Provisioned where it is not True.").stacked().read("runbooks/EgressProxiesNotProvisioned.md")),
		wide(one("Managed Proxies of no entry", "short", `max(proxy_operator_proxies_unmanaged{@})`, "unmanaged",
			"Their provider is not configured, or not for their namespace: they run, and nothing of them is mended.").read("runbooks/EgressProxiesUnmanaged.md")),
	}}
}

func bans() Row {
	return Row{Title: "Bans", Panels: []Panel{
		one("Reports, by result", "ops", `sum by (result) (rate(proxy_operator_lease_reports_total{@}[r]))`, "{{result}}",
			"What crawlers said of their leases.").stacked().read("api.md"),
		one("Share of bans and rate limits among reports", "percentunit",
			`sum(rate(proxy_operator_lease_reports_total{@,result=~"banned|rate_limited"}[r])) / sum(rate(proxy_operator_lease_reports_total{@}[r]))`, "banned or limited",
			"A wave of bans shows here before the pool runs dry. It needs crawlers that report ok as well.").read("runbooks/EgressBanWave.md"),
		one("Cooldowns", "short", `max(proxy_operator_lease_cooldowns{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "resting",
			"Pairs of proxy and target that rest now; a rest for every target counts as one.").read("runbooks/EgressCooldownsPileUp.md"),
	}}
}
