package discovery

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// tokens are principals by token.
type tokens map[string]Principal

func (ts tokens) Principal(hash [sha256.Size]byte) (Principal, bool) {
	for token, p := range ts {
		if sha256.Sum256([]byte(token)) == hash {
			return p, true
		}
	}
	return Principal{}, false
}

// What a principal does not see does not exist for it, whatever it asks for.
func TestPrincipalsSeeTheirOwnAlone(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Tokens = tokens{
			"team-a": {Name: "a", Namespaces: []string{"ns"}, Selector: map[string]string{"country": "de"}},
			"team-b": {Name: "b", Namespaces: []string{"elsewhere"}},
		}
	})
	f.put("german")
	f.put("french", func(p *fleet.Proxy) { p.Attributes = map[string]string{"country": "fr"} })
	as := func(token, method, path, body string) answer {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return f.send(t, req)
	}
	for name, tc := range map[string]struct {
		token, method, path, body string
		status                    int
	}{
		"its own proxy":                   {"team-a", "GET", "/v1/proxies/ns/german", "", 200},
		"another's proxy":                 {"team-a", "GET", "/v1/proxies/ns/french", "", 404},
		"another namespace's proxy":       {"team-b", "GET", "/v1/proxies/ns/german", "", 404},
		"the default principal's":         {testToken, "GET", "/v1/proxies/ns/french", "", 200},
		"a lease":                         {"team-a", "POST", "/v1/leases", `{}`, 201},
		"a lease of its attribute":        {"team-a", "POST", "/v1/leases", `{"selector":{"country":"de"}}`, 201},
		"a lease of another's attribute":  {"team-a", "POST", "/v1/leases", `{"selector":{"country":"fr"}}`, 409},
		"a lease in its namespace":        {"team-a", "POST", "/v1/leases", `{"namespace":"ns"}`, 201},
		"a lease in another's namespace":  {"team-a", "POST", "/v1/leases", `{"namespace":"elsewhere"}`, 409},
		"a lease where nothing is":        {"team-b", "POST", "/v1/leases", `{}`, 409},
		"a wait for what it does not see": {"team-b", "POST", "/v1/leases", `{"waitSeconds":30}`, 409},
		"another's cooldowns":             {"team-b", "DELETE", "/v1/cooldowns?proxy=ns/german", "", 404},
		"its cooldowns":                   {"team-a", "DELETE", "/v1/cooldowns?proxy=ns/german", "", 204},
		"an unknown token":                {"team-c", "GET", "/v1/proxies", "", 401},
	} {
		t.Run(name, func(t *testing.T) {
			if a := as(tc.token, tc.method, tc.path, tc.body); a.StatusCode != tc.status {
				t.Errorf("%d %s, want %d", a.StatusCode, a.text, tc.status)
			}
		})
	}
	var refused noMatchBody
	as("team-b", "POST", "/v1/leases", `{"namespace":"ns"}`).into(t, &refused)
	if refused.Considered != 0 {
		t.Errorf("a refusal tells of %d proxies in a namespace that the principal does not see", refused.Considered)
	}
	for token, want := range map[string]int{"team-a": 1, "team-b": 0, testToken: 2} {
		var list listView
		as(token, "GET", "/v1/proxies", "").into(t, &list)
		if list.Count != want {
			t.Errorf("%s lists %d proxies, want %d", token, list.Count, want)
		}
	}
	var l leaseView
	as("team-a", "POST", "/v1/leases", `{}`).into(t, &l)
	path := "/v1/leases/" + l.LeaseID
	for _, tc := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", path, "", http.StatusNotFound},
		{"POST", path + "/renew", `{}`, http.StatusNotFound},
		{"POST", path + "/report", `{"result":"banned"}`, http.StatusNotFound},
		{"DELETE", path, "", http.StatusNoContent},
	} {
		if a := as(testToken, tc.method, tc.path, tc.body); a.StatusCode != tc.status {
			t.Errorf("%s %s by another principal: %d, want %d", tc.method, tc.path, a.StatusCode, tc.status)
		}
	}
	if a := as("team-a", "GET", path, ""); a.StatusCode != http.StatusOK {
		t.Errorf("another principal ended the lease: %d", a.StatusCode)
	}
}
