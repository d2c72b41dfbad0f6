package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/dashboard"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/scene"
	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/sources"
)

// What the PodMonitor makes of the labels job and namespace in a cluster.
const (
	job       = "egress-proxies-system/egress-proxies-operator"
	namespace = "egress-proxies-system"
)

// run is one proof.
type run struct {
	options
	dir        string
	board      dashboard.Document
	rules      sources.Rules
	scene      *scene.Scene
	prometheus *prom.Process
	from, to   time.Time
}

func (r *run) all(ctx context.Context) (err error) {
	if r.board, err = dashboard.Read(dashboard.File); err != nil {
		return err
	}
	if r.rules, err = sources.ReadRules(sources.RulesDir); err != nil {
		return err
	}
	if r.scene, err = scene.Start(ctx, r.bin, filepath.Join(r.dir, "scene")); r.scene != nil {
		defer func() { err = errors.Join(err, r.scene.Stop()) }()
	}
	if err != nil {
		return err
	}
	if err := r.startPrometheus(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.prometheus.Stop()) }()
	if err := r.happens(ctx); err != nil {
		return err
	}
	graphs, err := r.panels(ctx)
	if err := errors.Join(err, r.evaluated(ctx), r.exposed(ctx)); err != nil {
		return err
	}
	if r.picture != "" {
		return r.draw(ctx, graphs)
	}
	return nil
}

func (r *run) startPrometheus() error {
	dir := filepath.Join(r.dir, "prometheus")
	groups, err := r.rules.File()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(file, groups, 0o600); err != nil {
		return err
	}
	address, err := scene.FreeAddress()
	if err != nil {
		return err
	}
	o := prom.Options{Dir: dir, Address: address, Job: job, Rules: []string{file}}
	for i, a := range r.scene.Metrics() {
		name := fmt.Sprintf("operator-%d", i)
		o.Targets = append(o.Targets, prom.Target{Address: a, Labels: map[string]string{"namespace": namespace, "pod": name, "instance": name}})
	}
	r.prometheus, err = prom.Start(o)
	return err
}

// happens lets one thing after the other happen, each once Prometheus has shown the one before.
func (r *run) happens(ctx context.Context) error {
	if err := r.shows(ctx, fmt.Sprintf("count(up{job=%q} == 1) == 2", job)); err != nil {
		return err
	}
	r.from = time.Now()
	for _, e := range r.scene.Events() {
		began := time.Now()
		err := e.Do(ctx)
		if err == nil {
			err = r.shows(ctx, e.Shows)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.What, err)
		}
		fmt.Printf("monitoring: %4.1f s  %s (seen after %.1f s)\n", time.Since(r.from).Seconds(), e.What, time.Since(began).Seconds())
	}
	r.to = time.Now()
	pages, err := r.scene.Fetched()
	if err == nil && pages == 0 {
		err = errors.New("no page came through a leased proxy")
	}
	if err != nil {
		return fmt.Errorf("crawling: %w", err)
	}
	proved("%d things that happen to proxies, providers, crawlers and configuration show in Prometheus; %d pages came through leased proxies meanwhile", len(r.scene.Events()), pages)
	return nil
}

// shows waits until expr has a result.
func (r *run) shows(ctx context.Context, expr string) error {
	const within = time.Minute
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := r.prometheus.True(ctx, expr)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("within %s, Prometheus does not show %s", within, expr), err)
		case <-tick.C:
		}
	}
}

// exposition returns what a replica exposes now.
func exposition(ctx context.Context, address string) (map[string]bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	return sources.Exposed(res.Body)
}
