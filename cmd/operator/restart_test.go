package main

import (
	"net/http"
	"slices"
	"testing"
)

const leaseRequest = `{"target":"shop.example"}`

// TestLeasesAndKeysEndWithTheirLedger restarts the operator, with and without another to take over: clients learn by the
// epoch that nothing of before holds any more.
func TestLeasesAndKeysEndWithTheirLedger(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	ns := newNamespace(t, c)
	createExternal(t, c, ns, "one", startForwardProxy(t))
	args := []string{
		"--namespace", ns, "--leader-elect", "--leader-election-lease-duration=5s", "--leader-election-namespace", ns, loopbackAllowed,
	}
	start := func(more ...string) (*operatorProcess, crawler) {
		p := startOperator(t, noProviders, append(slices.Clone(args), more...)...)
		return p, p.crawler(t, "t0ken-of-the-test")
	}
	offered := func(who crawler) {
		t.Helper()
		until(t, "the proxy offered", func() bool { return len(who.get("/v1/proxies?healthy=true").Proxies) == 1 })
	}
	var epochs []string
	// leases expects the one place of the proxy to be had, and the key to stand for the lease that was got.
	leases := func(who crawler) reply {
		t.Helper()
		got := who.lease("the-key", leaseRequest)
		if got.status != http.StatusCreated || got.Epoch == "" || slices.Contains(epochs, got.Epoch) {
			t.Fatalf("the first lease of an operator: %+v, epochs before %v", got, epochs)
		}
		epochs = append(epochs, got.Epoch)
		if again := who.lease("the-key", leaseRequest); again.status != http.StatusCreated || again.LeaseID != got.LeaseID || again.Epoch != got.Epoch {
			t.Fatalf("the same key: %+v, want the lease %s again", again, got.LeaseID)
		}
		if other := who.lease("the-key", `{}`); other.status != http.StatusUnprocessableEntity {
			t.Fatalf("the same key with another body: %+v", other)
		}
		if more := who.lease("another-key", leaseRequest); more.status != http.StatusConflict {
			t.Fatalf("a second place on a proxy with one: %+v", more)
		}
		return got
	}
	forgotten := func(who crawler, old reply) {
		t.Helper()
		if got := who.get("/v1/leases/" + old.LeaseID); got.status != http.StatusNotFound || got.Error != "unknown_lease" {
			t.Errorf("a lease of before: %+v", got)
		}
		if got := who.send(http.MethodPost, "/v1/leases/"+old.LeaseID+"/renew", "", `{}`); got.status != http.StatusNotFound {
			t.Errorf("renewing a lease of before: %+v", got)
		}
		if got := who.send(http.MethodPost, "/v1/leases/"+old.LeaseID+"/report", "", `{"result":"banned"}`); got.status != http.StatusNotFound {
			t.Errorf("a report on a lease of before: %+v", got)
		}
	}

	first, atFirst := start()
	offered(atFirst)
	before := leases(atFirst)
	second, atSecond := start()
	second.eventually(t, "/v1/proxies", http.StatusServiceUnavailable)
	if got := atSecond.lease("the-key", leaseRequest); got.status != http.StatusServiceUnavailable || got.Error != "not_leader" {
		t.Errorf("a standby: %+v", got)
	}
	if err := first.stop(t); err != nil {
		t.Fatal(err)
	}
	// Another replica leads.
	offered(atSecond)
	forgotten(atSecond, before)
	after := leases(atSecond)
	if after.LeaseID == before.LeaseID {
		t.Error("the key yields a lease of the leader before")
	}
	if err := second.stop(t); err != nil {
		t.Fatal(err)
	}
	// Restarted, and told to keep back what may still be held.
	third, atThird := start("--lease-startup-hold=1h")
	offered(atThird)
	forgotten(atThird, after)
	if got := atThird.lease("the-key", leaseRequest); got.status != http.StatusConflict || got.Considered != 1 || got.Unhealthy != 1 {
		t.Errorf("a proxy with a cap during the hold: %+v", got)
	}
	if err := third.stop(t); err != nil {
		t.Fatal(err)
	}
}
