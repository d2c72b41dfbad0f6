package metrics_test

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/metrics"
	"github.com/egress-proxies/egress-proxies-operator/internal/reload"
)

var _ reload.Recorder = (*metrics.Reloads)(nil)

func TestReloads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m, err := metrics.NewReloads(f.registry, time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	const p = "provider_config_"
	wants := func(when, successful, refused, at string, totals ...string) {
		t.Helper()
		want(t, when, f.scrape(t), true, append(totals,
			p+"last_reload_successful "+successful, p+"refused_entries "+refused, p+"last_reload_success_timestamp_seconds "+at)...)
	}
	none := func(result string) string { return p + `reloads_total{result="` + result + `"} 0` }
	wants("at the start", "1", "0", "100", none(reload.Success), none(reload.Refused), none(reload.Invalid), none(reload.Unreadable))
	m.Reloaded(reload.Refused, 2, time.Unix(200, 0))
	wants("two entries are refused", "0", "2", "100", p+`reloads_total{result="refused"} 1`)
	m.Reloaded(reload.Invalid, 0, time.Unix(300, 0))
	wants("invalid", "0", "0", "100", p+`reloads_total{result="invalid"} 1`)
	m.Reloaded(reload.Success, 0, time.Unix(400, 0))
	wants("in force", "1", "0", "400", p+`reloads_total{result="success"} 1`)
}
