package scene

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Event is something that happens, and the expression by which Prometheus has to show it.
type Event struct {
	What  string
	Do    func(context.Context) error
	Shows string
}

// Events returns what happens, in order. Each Do blocks for some requests at most.
func (s *Scene) Events() []Event {
	nothing := func(context.Context) error { return nil }
	return []Event{
		{"proxies are declared and get Ready", s.createAll, fmt.Sprintf(`max(proxy_operator_proxies{phase="Ready"}) >= %d`, ready)},
		{"crawlers lease them", s.Crawl, `sum(rate(proxy_operator_lease_requests_total{outcome="granted"}[5s])) > 5`},
		{"some wait", nothing, `max(proxy_operator_lease_requests_waiting) > 0`},
		{"a target bans a proxy", nothing, `max(proxy_operator_lease_cooldowns) > 0`},
		{"a provider that does not answer is shut off", nothing, `max(proxy_operator_provider_gates_shut{provider="dark"}) > 0 and min(proxy_operator_provider_target_up{provider="dark"}) == 0`},
		{"a provider has no quota", nothing, `sum(proxy_operator_reconcile_failures_total{provider="poor"}) > 0`},
		{"crawlers ask wrongly, ask the standby, die and hang up", s.misuse, `sum(proxy_operator_lease_requests_total{outcome="invalid"}) > 0 and sum(proxy_operator_lease_requests_total{outcome="not_leader"}) > 0` +
			` and sum(proxy_operator_lease_requests_total{outcome="client_gone"}) > 0 and sum(proxy_operator_leases_ended_total{how="expired"}) > 0`},
		{"Proxies are deleted without their instances", s.orphan, `max(proxy_operator_gc_orphans) > 0`},
		{"one is to be replaced, one VM is preempted, one vanishes with a lease on it", s.lose, `sum(proxy_operator_replacements_total{cause="annotation"}) > 0` +
			` and sum(proxy_operator_instances_lost_total) > 0 and sum(proxy_operator_leases_ended_total{how="gone"}) > 0`},
		{"the configuration gets one slot more", s.configure(processes+1, projectUsed), `min(proxy_operator_provider_config_last_reload_successful) == 1 and sum(proxy_operator_provider_config_reloads_total) >= 2`},
		{"the configuration moves a project that is in use", s.configure(processes+1, projectUsed+"-moved"), `max(proxy_operator_provider_config_refused_entries) > 0`},
		{"the configuration is mended", s.configure(processes+2, projectUsed), `max(proxy_operator_provider_config_refused_entries) == 0`},
		{"what all probe fails, and the judge with it", s.fail(true), `max(proxy_operator_healthcheck_shared_causes) > 0 and max(proxy_operator_healthcheck_judge_up) == 0`},
		{"both work again", s.fail(false), `max(proxy_operator_healthcheck_shared_causes) == 0 and max(proxy_operator_healthcheck_judge_up) == 1`},
		{"one orphan is deleted", nothing, `sum(proxy_operator_orphans_deleted_total{provider="cloud"}) > 0`},
		{"three, all that the provider has, are held by the breaker", nothing, `max(proxy_operator_gc_breaker_held{provider="lost"}) == 3`},
		{"for ten seconds all that can be is Ready", nothing, fmt.Sprintf(`min_over_time(max(proxy_operator_proxies{phase="Ready"})[10s:1s]) >= %d`, ready-lost-1)},
	}
}

func (s *Scene) misuse(ctx context.Context) error {
	leader, standby := s.replicas[0], s.replicas[1]
	expect := func(r *replica, body string, want int) error {
		code, err := s.call(ctx, r, http.MethodPost, "/v1/leases", body)
		if err == nil && code != want {
			err = fmt.Errorf("POST /v1/leases %s: %d, want %d", body, code, want)
		}
		return err
	}
	errs := []error{
		expect(leader, `{"selektor":{}}`, http.StatusBadRequest),
		expect(standby, `{}`, http.StatusServiceUnavailable),
		expect(leader, `{"selector":{"country":"us"},"ttlSeconds":1}`, http.StatusCreated), // and never seen again
	}
	// One that waits for a proxy of which there is none, and does not wait to the end.
	impatient, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.call(impatient, leader, http.MethodPost, "/v1/leases", `{"selector":{"country":"fr"},"waitSeconds":20}`); !errors.Is(err, context.DeadlineExceeded) {
		errs = append(errs, fmt.Errorf("waiting for a dead proxy: %w", err))
	}
	return errors.Join(errs...)
}

func (s *Scene) orphan(ctx context.Context) error {
	errs := []error{s.release(ctx, "cloud-4")}
	for i := range lost {
		errs = append(errs, s.release(ctx, fmt.Sprintf("lost-%d", i+1)))
	}
	return errors.Join(errs...)
}

func (s *Scene) lose(ctx context.Context) error {
	preempted, err1 := s.instanceOf(ctx, "cloud-1")
	vanished, err2 := s.instanceOf(ctx, "cloud-2")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	// Leases on every VM, whichever it is that goes.
	for range vms {
		if _, err := s.call(ctx, s.replicas[0], http.MethodPost, "/v1/leases", `{"selector":{"country":"us"},"ttlSeconds":20}`); err != nil {
			return err
		}
	}
	if !s.cloud.emulator.Preempt(preempted) || !s.cloud.emulator.Vanish(vanished) {
		return fmt.Errorf("there is no %s or no %s", preempted, vanished)
	}
	return s.annotate(ctx, "host-8", v1alpha1.AnnotationReplace, "now")
}

func (s *Scene) configure(slots int, project string) func(context.Context) error {
	return func(context.Context) error { return s.write("providers.yaml", s.providers(slots, project)) }
}

func (s *Scene) fail(on bool) func(context.Context) error {
	return func(context.Context) error { s.origin.failed.Store(on); return nil }
}
