package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/sources"
)

// graph is a panel with its data.
type graph struct {
	panel dashboard.Drawn
	lines [][]prom.Series // by target
}

// variables are what somebody chooses who wants to see everything, and what Grafana makes of a short time.
func variables() map[string]string {
	return map[string]string{"job": job, "namespace": ".*", "provider": ".*", "__rate_interval": "8s", "__interval": "1s"}
}

// mayBeEmpty are queries that a run may leave without data, by panel, with the reason.
func mayBeEmpty() map[string]string { return nil }

// panels asks for the data of every panel.
func (r *run) panels(ctx context.Context) (out []graph, err error) {
	var errs []error
	queries := 0
	ask := func(what, expr string) []prom.Series {
		filled, missing := dashboard.Substitute(expr, variables())
		if missing != nil {
			errs = append(errs, fmt.Errorf("%s: unknown variables %v", what, missing))
			return nil
		}
		queries++
		series, err := r.prometheus.Range(ctx, filled, r.from, r.to, time.Second)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %s: %w", what, filled, err))
		case len(series) == 0 && mayBeEmpty()[what] == "":
			errs = append(errs, fmt.Errorf("%s: no data: %s", what, filled))
		}
		return series
	}
	for _, p := range r.board.Graphs() {
		g := graph{panel: p}
		for _, t := range p.Targets {
			g.lines = append(g.lines, ask(p.Title, t.Expr))
		}
		out = append(out, g)
	}
	for _, a := range r.board.Annotations.List {
		ask(a.Name, a.Expr)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	proved("%d queries of %d panels of the dashboard have data", queries, len(out))
	return out, nil
}

// evaluated looks at what Prometheus says of the rules that it has evaluated each second of the run.
func (r *run) evaluated(ctx context.Context) error {
	loaded, err := r.prometheus.Rules(ctx)
	if err != nil {
		return err
	}
	var errs []error
	firing := map[string]bool{}
	alerts := 0
	for _, rule := range loaded {
		if rule.Health != "ok" {
			errs = append(errs, fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError))
		}
		if rule.Type == "alerting" {
			alerts++
			continue
		}
		series, err := r.prometheus.Range(ctx, rule.Name, r.from, r.to, time.Second)
		if err == nil && len(series) == 0 {
			err = errors.New("no data")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("record %s: %w", rule.Name, err))
		}
	}
	series, err := r.prometheus.Range(ctx, "ALERTS", r.from, r.to, time.Second)
	if err != nil {
		return err
	}
	for _, s := range series {
		firing[s.Labels["alertname"]] = true
	}
	if len(loaded) != len(r.rules.Exprs) {
		errs = append(errs, fmt.Errorf("%d rules are loaded, want %d", len(loaded), len(r.rules.Exprs)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	proved("%d recording rules have data and %d alerting rules are evaluated; pending or firing in the run: %s",
		len(loaded)-alerts, alerts, strings.Join(slices.Sorted(maps.Keys(firing)), ", "))
	return nil
}

// exposed checks that every metric that is named anywhere is exposed by one of the replicas.
func (r *run) exposed(ctx context.Context) error {
	there := map[string]bool{}
	for _, address := range r.scene.Metrics() {
		names, err := exposition(ctx, address)
		if err != nil {
			return err
		}
		maps.Copy(there, names)
	}
	named, err := sources.NamesInPages("docs")
	if err != nil {
		return err
	}
	for rule, expr := range r.rules.Exprs {
		for _, n := range sources.Names(expr) {
			named[n] = append(named[n], "rule "+rule)
		}
	}
	for _, p := range r.board.Graphs() {
		for _, t := range p.Targets {
			for _, n := range sources.Names(t.Expr) {
				named[n] = append(named[n], "panel "+p.Title)
			}
		}
	}
	var errs []error
	for _, n := range slices.Sorted(maps.Keys(named)) {
		if !there[n] {
			errs = append(errs, fmt.Errorf("%s is not exposed; it is named in %s", n, strings.Join(named[n], ", ")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	proved("%d metrics are named in dashboard, rules and pages, and all of them are exposed", len(named))
	return nil
}
