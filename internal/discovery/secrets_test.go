package discovery

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

func TestSecretsAppearInLeasesAlone(t *testing.T) {
	f := newFixture(t)
	f.put("a", withCap(1))
	l := f.acquire(t, `{"target":"shop.example"}`)
	if l.Proxy.Auth == nil || l.Proxy.Auth.Password != testPassword {
		t.Fatalf("the lease carries no credentials: %+v", l)
	}
	f.metrics.panics = "panic about " + testToken + " and " + testPassword
	answers := []answer{
		f.want(t, http.StatusInternalServerError, http.MethodPost, "/v1/leases", `{}`),
	}
	f.metrics.panics = nil
	answers = append(answers,
		f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", ""),
		f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies/ns/a", ""),
		f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{}`),
		f.want(t, http.StatusBadRequest, http.MethodPost, "/v1/leases", `{"target":"`+testToken+`"}`),
		f.want(t, http.StatusBadRequest, http.MethodPost, "/v1/leases", `{"selector":{"a":"`+testPassword+` "}}`),
		f.want(t, http.StatusBadRequest, http.MethodGet, "/v1/proxies?token="+testToken, ""),
		f.want(t, http.StatusNotFound, http.MethodGet, "/v1/"+testToken, ""),
		f.want(t, http.StatusNotFound, http.MethodGet, "/v1/leases/"+testToken, ""),
		f.want(t, http.StatusMethodNotAllowed, testPassword, "/v1/leases", ""),
		f.want(t, http.StatusNoContent, http.MethodDelete, "/v1/leases/"+l.LeaseID, ""),
		f.raw(t, []byte(unauthenticated("Authorization: Bearer "+testToken+"x"))),
	)
	for _, a := range answers {
		headers := strings.Builder{}
		if err := a.Header.Write(&headers); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.text+headers.String(), "SENTINEL") {
			t.Errorf("status %d carries a secret: %s", a.StatusCode, a.text)
		}
	}
	if a := answers[0]; a.code(t) != "internal" || strings.Contains(a.text, "panic") {
		t.Errorf("after a panic: %s", a.text)
	}
	logs := f.logs.String()
	for _, secret := range []string{"SENTINEL", l.LeaseID} {
		if strings.Contains(logs, secret) {
			t.Errorf("%s is in the logs:\n%s", secret, logs)
		}
	}
	for _, want := range []string{`"panic in an HTTP handler"`, `"route"="/v1/leases/{id}"`, `"method"="other"`, `"status"=500`} {
		if !strings.Contains(logs, want) {
			t.Errorf("%s is not in the logs:\n%s", want, logs)
		}
	}
}

func TestOpenAPIGivesNoCredentials(t *testing.T) {
	f := newFixture(t, open)
	f.put("a")
	a := f.raw(t, []byte("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
	var l leaseView
	a.into(t, &l)
	if a.StatusCode != http.StatusCreated || l.Proxy.Auth != nil || strings.Contains(a.text, "SENTINEL") {
		t.Errorf("%d %s", a.StatusCode, a.text)
	}
	if !strings.Contains(f.logs.String(), "WARNING: the discovery API is open") {
		t.Errorf("no warning in the logs: %s", f.logs)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	store := fleet.NewStore()
	f := newFixture(t)
	ledger := f.ledger
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"required token":   {func(o *Options) { o.Token, o.RequireAuth = "", true }, "authentication is required"},
		"newline in token": {func(o *Options) { o.Token = testToken + "\n" }, "visible ASCII"},
		"space in token":   {func(o *Options) { o.Token = "a b" }, "visible ASCII"},
		"fleet":            {func(o *Options) { o.Fleet = nil }, "required"},
		"ledger":           {func(o *Options) { o.Ledger = nil }, "required"},
		"clock":            {func(o *Options) { o.Clock = nil }, "required"},
		"default above":    {func(o *Options) { o.TTL, o.MaxTTL = 120e9, 60e9 }, "TTL"},
		"split second":     {func(o *Options) { o.TTL = 1500e6 }, "TTL"},
		"preference":       {func(o *Options) { o.Prefer = "best" }, "preference"},
		"connections":      {func(o *Options) { o.MaxConnections = -1 }, "connections"},
		"timeout":          {func(o *Options) { o.ReadTimeout = -1 }, "timeouts"},
	} {
		o := Options{Token: testToken, RequireAuth: true, Fleet: store, Ledger: ledger, Clock: f.clock, Log: logr.Discard(), Prefer: lease.PreferRotation}
		tc.change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "SENTINEL") {
			t.Errorf("%s: error %v, want one about %q", name, err, tc.want)
		}
	}
	if _, err := New(Options{Fleet: store, Ledger: ledger, Clock: f.clock}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
