package health

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestFetchDirectly(t *testing.T) {
	status := http.StatusNoContent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status == http.StatusFound {
			http.Redirect(w, r, "/elsewhere", status)
			return
		}
		w.WriteHeader(status)
	}))
	defer srv.Close()
	url := srv.URL + "/?token=sentinel"
	if err := fetchDirectly(t.Context(), url); err != nil {
		t.Errorf("204: %v", err)
	}
	for _, status = range []int{http.StatusFound, http.StatusForbidden, http.StatusBadGateway} {
		if err := fetchDirectly(t.Context(), url); err == nil || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%d: %v", status, err)
		}
	}
	srv.Close()
	if err := fetchDirectly(t.Context(), url); err == nil || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestJudgeURLIsChecked(t *testing.T) {
	for _, ok := range []string{"https://www.gstatic.com/generate_204", "http://192.0.2.1:8080/?a=b"} {
		if err := CheckJudgeURL(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, wrong := range []string{"", "judge.test", "ftp://judge.test/", "https://", "https://user:sentinel@judge.test/", "https://a/" + strings.Repeat("x", maxJudgeURL), "http://[::1"} {
		if err := CheckJudgeURL(wrong); err == nil || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%.40q: %v", wrong, err)
		}
	}
}

func TestVerdictsWaitForTheJudgeURL(t *testing.T) {
	touchy := func(p *fleet.Proxy) { p.Probe.FailureThreshold, p.Probe.Interval = 1, time.Minute }
	var answer chan struct{} // made inside the bubble, where waiting for it counts as being blocked
	var slow atomic.Bool
	var asked atomic.Int32
	options := func(o *Options) {
		o.Fetch = func(ctx context.Context, _ string) error {
			if !slow.Load() {
				return nil
			}
			asked.Add(1)
			select {
			case <-answer:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	inOutage(t, 20, touchy, options, func(o *outage) {
		answer = make(chan struct{})
		slow.Store(true)
		o.set(0, 20, true)
		for before := 0; before < minFailing; {
			o.pass(50 * time.Millisecond)
			o.engine.mu.Lock()
			before = o.engine.causes[causeKey{"https://target.test/", time.Minute}].failing
			o.engine.mu.Unlock()
		}
		o.pass(2 * time.Minute)
		if got := o.says(0, 20); got != "10 Healthy offered, 10 Unhealthy" {
			t.Errorf("%s; want those that failed before most others to be Unhealthy", got)
		}
		if asked.Load() == 0 {
			t.Error("the judge url was not asked")
		}
		close(answer)
		o.pass(2 * time.Second)
		o.want(0, 20, "20 Unhealthy")
	})
}
