package discovery

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

func TestLifeOfALease(t *testing.T) {
	f := newFixture(t)
	f.put("a", withCap(2))
	l := f.acquire(t, `{"selector":{"country":"de"},"namespace":"ns","ttlSeconds":60,"target":"shop.example"}`)
	millis := int64(12)
	want := leasedProxy{
		proxyView: proxyView{
			Namespace: "ns", Name: "a", URL: "http://a.proxies.test:3128", IP: "a.proxies.test", Port: 3128, Provider: "local",
			Mode: "Managed", Attributes: map[string]string{"country": "de"}, Phase: "Ready", Healthy: true, LatencyMillis: &millis,
			ExitAddress: "198.51.100.7", ActiveLeases: 1, MaxConcurrentLeases: 2,
		},
		Auth: &authView{testUser, testPassword},
	}
	if got := fmt.Sprintf("%+v", l.Proxy.Auth); got != fmt.Sprintf("%+v", want.Auth) {
		t.Errorf("auth %s", got)
	}
	l.Proxy.Auth, want.Auth = nil, nil
	if *l.Proxy.LatencyMillis != millis {
		t.Errorf("latency %d", *l.Proxy.LatencyMillis)
	}
	l.Proxy.LatencyMillis, want.LatencyMillis = nil, nil
	if got, want := fmt.Sprintf("%+v", l.Proxy), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("proxy\n%s, want\n%s", got, want)
	}
	if l.ExpiresAt != "2030-01-02T03:05:05.000Z" || l.TTLSeconds != 60 || l.Epoch != f.ledger.Epoch() {
		t.Errorf("lease %+v", l)
	}

	f.clock.Step(30 * time.Second)
	var again leaseView
	f.want(t, http.StatusOK, http.MethodGet, "/v1/leases/"+l.LeaseID, "").into(t, &again)
	if again.ExpiresAt != l.ExpiresAt || again.Proxy.Auth == nil {
		t.Errorf("GET: %+v", again)
	}
	f.want(t, http.StatusOK, http.MethodPost, "/v1/leases/"+l.LeaseID+"/renew", `{}`).into(t, &again)
	if again.ExpiresAt != "2030-01-02T03:09:35.000Z" || again.TTLSeconds != 300 {
		t.Errorf("renewed by default: %+v", again)
	}
	f.want(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+l.LeaseID+"/report", `{"result":"banned"}`)
	f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{"target":"shop.example"}`)
	f.want(t, http.StatusCreated, http.MethodPost, "/v1/leases", `{"target":"other.example"}`)
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/cooldowns?proxy=ns/a&target=shop.example", "")
	for range 2 {
		f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, "")
	}
	f.acquire(t, `{"target":"shop.example"}`)
	if got := f.want(t, http.StatusNotFound, http.MethodGet, "/v1/leases/"+l.LeaseID, "").code(t); got != "unknown_lease" {
		t.Errorf("released: %s", got)
	}
	if got := f.metrics.take(); got != "granted no_match granted granted" {
		t.Errorf("outcomes %s", got)
	}
}

func TestEndsOfALease(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	short, gone := f.acquire(t, `{"ttlSeconds":1}`), f.acquire(t, `{"ttlSeconds":3600}`)
	f.clock.Step(time.Second)
	check := func(status int, code, method, path, body string) {
		t.Helper()
		if got := f.want(t, status, method, path, body).code(t); got != code {
			t.Errorf("%s %s: code %s, want %s", method, path, got, code)
		}
	}
	check(http.StatusGone, "expired", http.MethodGet, "/v1/leases/"+short.LeaseID, "")
	check(http.StatusGone, "expired", http.MethodPost, "/v1/leases/"+short.LeaseID+"/renew", `{"ttlSeconds":1}`)
	f.ledger.Withdraw(f.fleet.Get(key).LeaseKey())
	check(http.StatusConflict, "draining", http.MethodPost, "/v1/leases/"+gone.LeaseID+"/renew", `{}`)
	f.want(t, http.StatusOK, http.MethodGet, "/v1/leases/"+gone.LeaseID, "")
	f.put("a", func(p *fleet.Proxy) { p.Attempt = 2 })
	check(http.StatusGone, "proxy_gone", http.MethodGet, "/v1/leases/"+gone.LeaseID, "")
	check(http.StatusGone, "proxy_gone", http.MethodPost, "/v1/leases/"+gone.LeaseID+"/renew", `{}`)
	f.want(t, http.StatusNoContent, http.MethodPost, "/v1/leases/"+gone.LeaseID+"/report", `{"result":"banned","target":"shop.example"}`)
	f.acquire(t, `{"target":"shop.example"}`)
	f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+gone.LeaseID, "")
}

// Near its longest life a lease is given for less than a second, which is not nothing.
func TestALeaseIsNeverGivenForNoSeconds(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		ledger, err := lease.New(lease.Options{Fleet: o.Fleet, Clock: o.Clock.(clockWithTicker), MaxLifetime: 2500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger = ledger
	})
	f.put("a")
	l := f.acquire(t, `{}`)
	for _, step := range []struct {
		passes time.Duration
		ttl    int64
	}{{0, 2}, {time.Second, 1}, {time.Second, 1}, {499 * time.Millisecond, 1}} {
		f.clock.Step(step.passes)
		f.want(t, http.StatusOK, http.MethodPost, "/v1/leases/"+l.LeaseID+"/renew", `{}`).into(t, &l)
		if l.TTLSeconds != step.ttl || l.ExpiresAt != timestamp(epoch.Add(2500*time.Millisecond)) {
			t.Errorf("%d s until %s, want %d", l.TTLSeconds, l.ExpiresAt, step.ttl)
		}
	}
}

// Keys belong to the ledger, as leases do: after a restart the same request is another.
func TestKeysDoNotSurviveARestart(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	ask := func(f *fixture, body string) (l leaseView) {
		t.Helper()
		a := f.raw(t, []byte(call("POST /v1/leases", body, "Idempotency-Key: k")))
		if a.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", a.StatusCode, a.text)
		}
		a.into(t, &l)
		return l
	}
	before := ask(f, `{}`)
	if same := ask(f, `{}`); same.LeaseID != before.LeaseID || same.Epoch != before.Epoch {
		t.Errorf("%+v and %+v", before, same)
	}
	f.stop()
	if err := f.wait(); err != nil {
		t.Error(err)
	}
	for _, body := range []string{`{}`, `{"ttlSeconds":60}`} { // not even that the key stood for another body is known
		var restarted *lease.Ledger
		again := newFixture(t, func(o *Options) {
			var err error
			if restarted, err = lease.New(lease.Options{Fleet: f.fleet, Clock: f.clock}); err != nil {
				t.Fatal(err)
			}
			o.Fleet, o.Ledger = f.fleet, restarted
		})
		after := ask(again, body)
		if after.LeaseID == before.LeaseID || after.Epoch == before.Epoch || after.Epoch != restarted.Epoch() {
			t.Errorf("%s: %+v and %+v", body, before, after)
		}
		if n := restarted.Live(); n != 1 {
			t.Errorf("%s: %d live leases", body, n)
		}
		if got := again.want(t, http.StatusNotFound, http.MethodGet, "/v1/leases/"+before.LeaseID, "").code(t); got != "unknown_lease" {
			t.Errorf("%s: the old lease: %s", body, got)
		}
	}
}

func TestRefusalSaysWhyAndWhenToComeBack(t *testing.T) {
	f := newFixture(t)
	f.put("a", withCap(1))
	f.put("sick")
	f.unhealthy("sick")
	var body noMatchBody
	cases := []struct {
		reason   string
		ttl      int
		from, to int
	}{
		{"a long way off: five seconds and jitter", 300, 5, 5 + retrySpread},
		{"soon: then, and jitter", 2, 2, 2 + retrySpread},
	}
	for _, tc := range cases {
		l := f.acquire(t, fmt.Sprintf(`{"ttlSeconds":%d}`, tc.ttl))
		seen := map[int]bool{}
		for range 60 {
			a := f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{}`)
			after, err := strconv.Atoi(a.Header.Get("Retry-After"))
			if err != nil || after < tc.from || after > tc.to {
				t.Fatalf("%s: Retry-After %q", tc.reason, a.Header.Get("Retry-After"))
			}
			seen[after] = true
			a.into(t, &body)
		}
		if len(seen) < 3 {
			t.Errorf("%s: only %d different times", tc.reason, len(seen))
		}
		if body.Error != "no_match" || body.Considered != 2 || body.AtCapacity != 1 || body.Unhealthy != 1 || body.InCooldown != 0 || body.FreeAt != l.ExpiresAt {
			t.Errorf("%s: %+v", tc.reason, body)
		}
		f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, "")
	}
	a := f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{"selector":{"country":"fr"}}`)
	body = noMatchBody{}
	a.into(t, &body)
	if got := a.Header.Values("Retry-After"); len(got) > 0 || body.Considered != 0 || body.FreeAt != "" {
		t.Errorf("nothing matches: Retry-After %q, %+v", got, body)
	}
	f.unhealthy("a")
	a = f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{}`)
	if a.Header.Get("Retry-After") == "" {
		t.Error("all unhealthy: no Retry-After, though one may become healthy")
	}
}

func TestOverloaded(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		ledger, err := lease.New(lease.Options{Fleet: o.Fleet, Clock: o.Clock.(clockWithTicker), MaxLive: 1})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger = ledger
	})
	f.put("a")
	f.acquire(t, `{}`)
	a := f.want(t, http.StatusServiceUnavailable, http.MethodPost, "/v1/leases", `{}`)
	if got := a.code(t); got != "overloaded" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", got, a.Header.Get("Retry-After"))
	}
	if got := f.metrics.take(); got != "granted overloaded" {
		t.Errorf("outcomes %s", got)
	}
}

func TestOnlyTheLeaderAnswers(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Leading = func() bool { return false } })
	f.put("a")
	for _, call := range [][3]string{
		{"GET", "/v1/proxies", ""}, {"GET", "/v1/proxies/ns/a", ""}, {"POST", "/v1/leases", "{}"}, {"GET", "/v1/leases/x", ""},
		{"DELETE", "/v1/leases/x", ""}, {"POST", "/v1/leases/x/renew", "{}"}, {"POST", "/v1/leases/x/report", `{"result":"ok"}`},
		{"DELETE", "/v1/cooldowns?proxy=ns/a", ""},
	} {
		a := f.want(t, http.StatusServiceUnavailable, call[0], call[1], call[2])
		if got := a.code(t); got != "not_leader" || !a.Close {
			t.Errorf("%v: %s, connection closed %v", call, got, a.Close)
		}
	}
	if f.want(t, http.StatusOK, http.MethodGet, "/healthz", "").text != "ok\n" {
		t.Error("a standby is not unhealthy")
	}
	if got := f.metrics.take(); got != "not_leader" {
		t.Errorf("outcomes %s", got)
	}
}

// The ledger has the last word: the server may still believe that it leads.
func TestLedgerThatMayNotGrant(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		ledger, err := lease.New(lease.Options{Fleet: o.Fleet, Clock: o.Clock.(clockWithTicker), MayGrant: func() bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger = ledger
	})
	f.put("a")
	a := f.want(t, http.StatusServiceUnavailable, http.MethodPost, "/v1/leases", `{}`)
	if got := a.code(t); got != "not_leader" || !a.Close {
		t.Errorf("%s, connection closed %v", got, a.Close)
	}
}

func TestListPagesInOrder(t *testing.T) {
	f := newFixture(t)
	for i := range 7 {
		f.put(fmt.Sprintf("p%d", (i*3)%7))
	}
	f.put("p9", func(p *fleet.Proxy) { p.Attributes = map[string]string{"country": "fr"} })
	f.unhealthy("p4")
	f.acquire(t, `{}`)
	var names []string
	var pages []int
	for path := "/v1/proxies?attr.country=de&healthy=true&limit=4"; path != ""; {
		var page listView
		f.want(t, http.StatusOK, http.MethodGet, path, "").into(t, &page)
		pages = append(pages, page.Count)
		for _, p := range page.Proxies {
			names = append(names, fmt.Sprint(p.Name, p.ActiveLeases))
		}
		path = ""
		if page.Continue != "" {
			path = "/v1/proxies?attr.country=de&healthy=true&limit=4&continue=" + page.Continue
		}
	}
	if got := fmt.Sprint(names, pages); got != "[p01 p10 p20 p30 p50 p60] [4 2]" {
		t.Errorf("got %s", got)
	}
	var none listView
	a := f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies?namespace=other", "")
	a.into(t, &none)
	if a.text != `{"proxies":[],"count":0}` {
		t.Errorf("empty list %s", a.text)
	}
	f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies?healthy=false", "").into(t, &none)
	if none.Count != 1 || none.Proxies[0].Name != "p4" {
		t.Errorf("unhealthy ones: %+v", none)
	}
}

func TestProxyIsHealthyOnlyOnAVerdictAboutItself(t *testing.T) {
	f := newFixture(t)
	f.put("a", func(p *fleet.Proxy) { p.Cordoned = true })
	var p proxyView
	f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies/ns/a", "").into(t, &p)
	if !p.Healthy || !p.Cordoned || p.LatencyMillis == nil {
		t.Errorf("cordoned and probed: %+v", p)
	}
	old := f.fleet.Get(types.NamespacedName{Namespace: "ns", Name: "a"})
	next := *old
	next.Attempt = 2
	f.fleet.Apply(&next)
	p = proxyView{}
	f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies/ns/a", "").into(t, &p)
	if p.Healthy || p.LatencyMillis != nil {
		t.Errorf("another instance: %+v", p)
	}
	f.fleet.Apply(&fleet.Proxy{Key: old.Key, UID: "uid-a", Mode: v1alpha1.ModeExternal})
	a := f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies/ns/a", "")
	if a.text != `{"namespace":"ns","name":"a","mode":"External","attributes":{},"phase":"","healthy":false,"activeLeases":0,"cordoned":false}` {
		t.Errorf("bare proxy: %s", a.text)
	}
}
