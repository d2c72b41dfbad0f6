package dashboard

func configuration() Row {
	wide := func(p Panel) Panel { p.Width = 6; return p }
	return Row{Title: "Configuration", Panels: []Panel{
		wide(one("Reloads of the providers' file, by result", "ops", `sum by (result) (rate(proxy_operator_provider_config_reloads_total{@}[r]))`, "{{result}}",
			"Every replica reads the file, so each counts.").stacked().read("configuration.md")),
		wide(one("Last reload was good", "short", `min by (instance) (proxy_operator_provider_config_last_reload_successful{@})`, "providers {{instance}}",
			"0: the file as it is now is not in force; the entries before serve on. The token file is there with --token-file alone.").
			also(`min by (instance) (proxy_operator_token_file_last_reload_successful{@})`, "tokens {{instance}}").read("runbooks/EgressProviderConfigRefused.md")),
		wide(one("Entries refused", "short", `max by (instance) (proxy_operator_provider_config_refused_entries{@})`, "{{instance}}",
			"Entries of the file that are not in force, because they are in use or cannot be built.").read("configuration.md")),
		wide(one("Age of the configuration in force", "s", `time() - max by (instance) (proxy_operator_provider_config_last_reload_success_timestamp_seconds{@})`, "{{instance}}",
			"Since the last good reload.").read("configuration.md")),
	}}
}

func process() Row {
	return Row{Title: "Process", Panels: []Panel{
		one("Leader", "short", `max by (instance) (proxy_operator_leader{@})`, "{{instance}}", "1 at the replica that may grant leases.").stacked().read("runbooks/EgressNoLeader.md"),
		one("Memory, by replica", "bytes", `sum by (instance) (process_resident_memory_bytes{@})`, "{{instance}}", "Resident memory, and what Go has in use. The manifests allow 128 MiB.").
			also(`sum by (instance) (go_memstats_heap_inuse_bytes{@})`, "heap {{instance}}"),
		one("CPU, by replica", "short", `sum by (instance) (rate(process_cpu_seconds_total{@}[r]))`, "{{instance}}", "CPUs in use."),
		one("Goroutines, by replica", "short", `sum by (instance) (go_goroutines{@})`, "{{instance}}", "Follows the fleet and the crawlers that wait; growth by itself is a leak."),
		one("Builds, by version", "short", `sum by (version, revision, goversion) (proxy_operator_build_info{@})`, "{{version}} {{revision}} {{goversion}}", "Replicas of each build; two during a roll-out.").stacked(),
		one("Events suppressed, by type", "ops", `sum by (type) (rate(proxy_operator_events_suppressed_total{@}[r]))`, "{{type}}", "Events that were not published because there were too many.").stacked(),
		one("Certificates end in, by use", "s", `min by (use) (proxy_operator_certificate_expiry_timestamp_seconds{@}) - time()`, "{{use}}",
			"Of the servers that follow files.").read("runbooks/EgressCertificateExpires.md"),
		one("Spans, by what became of them", "ops", `sum by (result) (rate(proxy_operator_trace_spans_total{@}[r]))`, "{{result}}",
			"Those that are not sent are lost.").stacked().read("configuration.md"),
		one("Time since the start", "s", `time() - max by (instance) (process_start_time_seconds{@})`, "{{instance}}", "Leases and cooldowns are as old as the leader's ledger at most."),
	}}
}
