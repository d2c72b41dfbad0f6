package discovery

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

func TestWhatKeepsProxiesBackIsCounted(t *testing.T) {
	f := newFixture(t)
	refuse := func(body, want string) {
		t.Helper()
		f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", body)
		if got := f.metrics.causes; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: causes %q, want %s", body, got, want)
		}
		f.metrics.causes = nil
	}
	refuse(`{}`, CauseNoProxy)
	f.put("a", withCap(1))
	refuse(`{"selector":{"country":"fr"}}`, CauseNoProxy)
	l := f.acquire(t, `{"target":"shop.example"}`)
	refuse(`{}`, CauseAtCapacity)
	f.want(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+l.LeaseID+"/report", `{"result":"banned"}`)
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, "")
	refuse(`{"target":"shop.example"}`, CauseCooldown)
	f.put("b", func(p *fleet.Proxy) { p.Cordoned = true })
	f.put("c", func(p *fleet.Proxy) { p.Provisioned = false })
	refuse(`{"target":"shop.example"}`, CauseUnavailable)
	if got := f.metrics.take(); got != "no_match no_match granted no_match no_match no_match" {
		t.Errorf("outcomes %s", got)
	}
}

func TestTheCauseIsTheLargestPart(t *testing.T) {
	for _, c := range []struct {
		refused lease.NoMatchError
		want    string
	}{
		{lease.NoMatchError{}, CauseNoProxy},
		{lease.NoMatchError{Considered: 3, AtCapacity: 1, InCooldown: 1, Unhealthy: 1}, CauseAtCapacity},
		{lease.NoMatchError{Considered: 2, InCooldown: 1, Unhealthy: 1}, CauseCooldown},
		{lease.NoMatchError{Considered: 3, InCooldown: 1, Unhealthy: 2}, CauseUnavailable},
		{lease.NoMatchError{Considered: 5, AtCapacity: 2, InCooldown: 3}, CauseCooldown},
	} {
		if got := causeOf(&c.refused); got != c.want {
			t.Errorf("%+v: %s, want %s", c.refused, got, c.want)
		}
	}
}

// TestRequestsAreMeasured: by route and status, without anything that a client can choose.
func TestRequestsAreMeasured(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	l := f.acquire(t, `{}`)
	f.want(t, http.StatusOK, http.MethodGet, "/v1/leases/"+l.LeaseID, "")
	f.want(t, http.StatusNotFound, http.MethodGet, "/v1/leases/unknown-SENTINEL", "")
	f.want(t, http.StatusNotFound, http.MethodGet, "/SENTINEL", "")
	f.want(t, http.StatusMethodNotAllowed, "SENTINEL", "/v1/leases", "")
	f.want(t, http.StatusMethodNotAllowed, http.MethodPut, "/v1/leases", "")
	f.want(t, http.StatusBadRequest, http.MethodPost, "/v1/leases", "SENTINEL")
	f.metrics.mu.Lock()
	f.metrics.panics = "boom"
	f.metrics.mu.Unlock()
	f.want(t, http.StatusInternalServerError, http.MethodPost, "/v1/leases", `{}`)
	want := []string{
		"POST /v1/leases 201 0s", "GET /v1/leases/{id} 200 0s", "GET /v1/leases/{id} 404 0s", "unmatched 404 0s", "other /v1/leases 405 0s",
		"PUT /v1/leases 405 0s", "POST /v1/leases 400 0s", "POST /v1/leases 500 0s",
	}
	f.metrics.mu.Lock()
	defer f.metrics.mu.Unlock()
	if !slices.Equal(f.metrics.requests, want) {
		t.Errorf("requests %q, want %q", f.metrics.requests, want)
	}
	if strings.Contains(strings.Join(f.metrics.requests, " "), "SENTINEL") {
		t.Error("what a client sent is in a label")
	}
}

// TestWaitsAreMeasuredApart: a request that is ready to wait takes as long as it does.
func TestWaitsAreMeasuredApart(t *testing.T) {
	f := newWaitFixture(t)
	f.put("a", withCap(1))
	l := f.acquire(t, `{"waitSeconds":5}`)
	got := make(chan answer, 1)
	go func() { got <- f.do(t, http.MethodPost, "/v1/leases", `{"waitSeconds":30}`) }()
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	f.clock.Step(7 * time.Second)
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, "")
	if a := <-got; a.StatusCode != http.StatusCreated {
		t.Fatalf("the wait ended with %d", a.StatusCode)
	}
	f.metrics.mu.Lock()
	defer f.metrics.mu.Unlock()
	if want := []string{"granted true 0s", "granted true 7s"}; !slices.Equal(f.metrics.acquired, want) {
		t.Errorf("measured %q, want %q", f.metrics.acquired, want)
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	f := newFixture(t)
	if n := f.server.Connections(); n != 0 {
		t.Errorf("%d connections at the start", n)
	}
	first, _ := dial(t, f)
	_, _ = dial(t, f)
	await(t, "two connections", func() bool { return f.server.Connections() == 2 })
	_ = first.Close()
	await(t, "one is left", func() bool { return f.server.Connections() == 1 })
	idle, err := New(Options{BindAddress: "127.0.0.1:0", Fleet: f.fleet, Ledger: f.ledger, Clock: f.clock})
	if err != nil || idle.Connections() != 0 {
		t.Errorf("a server that does not serve: %v", err)
	}
}
