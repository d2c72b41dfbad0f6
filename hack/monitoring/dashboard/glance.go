package dashboard

func glance() Row {
	stat := func(title, unit string, bad float64, expr, description string) Panel {
		p := one(title, unit, expr, "", description)
		p.Stat, p.Bad, p.Width = true, bad, 3
		return p
	}
	return Row{Title: "At a glance", Panels: []Panel{
		stat("Replicas that lead", "short", 2, `sum(proxy_operator_leader{@})`,
			"Must be 1. With 0 nobody grants leases and nothing is reconciled; more than 1 lasts for a scrape at most, around a handover.").read("runbooks/EgressNoLeader.md"),
		stat("Proxies Ready", "short", 0, `max(proxy_operator_proxies{@,phase="Ready"}) or vector(0)`,
			"Proxies that exist and are healthy, cordoned ones included."),
		stat("Proxies free", "short", 0, `max(proxy_operator_lease_proxies{@,state="free"} and on (job, instance) proxy_operator_leader{@} == 1)`,
			"Proxies that the next lease could have, for a target for which none rests."),
		stat("Leases held", "short", 0, `max(proxy_operator_leases_active{@} and on (job, instance) proxy_operator_leader{@} == 1)`, "Leases that live at this moment."),
		stat("Refused for want of a proxy", "percentunit", 0.2,
			`sum(rate(proxy_operator_lease_requests_total{@,outcome="no_match"}[r])) / sum(rate(proxy_operator_lease_requests_total{@,outcome=~"granted|no_match"}[r]))`,
			"Share of requests that got a 409. Which cause stands behind it is in the row Leases.").read("runbooks/EgressPoolStarved.md"),
		stat("Provider targets down", "short", 1, `count(max by (provider, target) (proxy_operator_provider_target_up{@p}) == 0) or vector(0)`,
			"Projects, hosts and API servers whose last check failed.").read("runbooks/EgressProviderTargetDown.md"),
		stat("Shared causes", "short", 1, `max(proxy_operator_healthcheck_shared_causes{@})`,
			"Probe URLs at which most proxies fail while the judge URL fails too: verdicts are held.").read("runbooks/EgressSharedCauseSuspected.md"),
		stat("Orphans held by the breaker", "short", 1, `max(proxy_operator_gc_breaker_held{@p}) or vector(0)`,
			"Orphans that the collector will not delete before somebody approves of the digest.").read("runbooks/EgressOrphanBreakerHeld.md"),
	}}
}
