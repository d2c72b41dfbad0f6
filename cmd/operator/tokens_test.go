package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	tokenOfA    = "token-of-a-0123456789"
	tokenOfB    = "token-of-b-0123456789"
	newTokenOfB = "token-of-b-9876543210"
)

// TestTheTokenFileIsFollowed rotates tokens under a running operator.
//
//nolint:paralleltest // it watches all namespaces
func TestTheTokenFileIsFollowed(t *testing.T) {
	c := cluster(t)
	nsA, nsB := newNamespace(t, c), newNamespace(t, c)
	through := startForwardProxy(t)
	createExternal(t, c, nsA, "one", through)
	createExternal(t, c, nsB, "two", through)
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(ofB string) string {
		return fmt.Sprintf("tokens:\n- {name: a, token: %s, namespaces: [%s]}\n- {name: b, token: %s, namespaces: [%s]}\n", tokenOfA, nsA, ofB, nsB)
	}
	write(file(tokenOfB))
	p := startOperator(t, noProviders, "--require-auth", "--token-file", path, loopbackAllowed)
	a, b, newB, everything := p.crawler(t, tokenOfA), p.crawler(t, tokenOfB), p.crawler(t, newTokenOfB), p.crawler(t, "t0ken-of-the-test")

	sees := func(who crawler, want ...named) bool {
		got := who.get("/v1/proxies?healthy=true")
		for _, w := range want {
			if !slices.Contains(got.Proxies, w) {
				return false
			}
		}
		return got.status == http.StatusOK && len(got.Proxies) == len(want)
	}
	one, two := named{nsA, "one"}, named{nsB, "two"}
	until(t, "both proxies offered to DISCOVERY_TOKEN, which sees all", func() bool { return sees(everything, one, two) })
	if !sees(a, one) || !sees(b, two) {
		t.Errorf("a sees %v, b sees %v", a.get("/v1/proxies").Proxies, b.get("/v1/proxies").Proxies)
	}
	if got := b.get("/v1/proxies/" + nsA + "/one"); got.status != http.StatusNotFound {
		t.Errorf("b asks for the proxy of a: %d", got.status)
	}
	if got := b.lease("", `{"namespace":"`+nsA+`"}`); got.status != http.StatusConflict || got.Considered != 0 {
		t.Errorf("b leases in the namespace of a: %+v", got)
	}
	held := a.lease("", `{}`)
	if held.status != http.StatusCreated || held.Proxy != one {
		t.Fatalf("a leases: %+v", held)
	}
	if got := b.get("/v1/leases/" + held.LeaseID); got.status != http.StatusNotFound || got.Error != "unknown_lease" {
		t.Errorf("b looks at the lease of a: %+v", got)
	}
	if got := newB.get("/v1/proxies"); got.status != http.StatusUnauthorized {
		t.Errorf("a token that is not in the file yet: %d", got.status)
	}

	rotated := func(when string) {
		t.Helper()
		if was, is := b.get("/v1/proxies").status, newB.get("/v1/proxies").status; was != http.StatusUnauthorized || is != http.StatusOK {
			t.Errorf("%s: the token taken out answers %d, the one put in %d", when, was, is)
		}
		if got := a.get("/v1/leases/" + held.LeaseID); got.status != http.StatusOK || got.Epoch != held.Epoch {
			t.Errorf("%s: the lease of a, whose token stayed: %+v", when, got)
		}
	}
	write(file(newTokenOfB))
	until(t, "the new token works", func() bool { return newB.get("/v1/proxies").status == http.StatusOK })
	rotated("rotated")

	for _, spoiled := range []struct{ what, text, complaint string }{
		{"broken", "tokens: [" + tokenOfB + "\n", "not valid YAML"},
		{"an unknown member", "tokens:\n- {name: b, tokn: " + tokenOfB + "}\n", "/tokens/0/?"},
		{"empty", "", "0 entries"},
	} {
		before := p.complaints(spoiled.complaint)
		write(spoiled.text)
		until(t, "a complaint about a file that is "+spoiled.what, func() bool { return p.complaints(spoiled.complaint) > before })
		rotated(spoiled.what)
	}

	write(file(tokenOfB))
	until(t, "mended, with the first token", func() bool { return b.get("/v1/proxies").status == http.StatusOK })
	if got := newB.get("/v1/proxies"); got.status != http.StatusUnauthorized {
		t.Errorf("the token taken out again: %d", got.status)
	}
	if err := p.stop(t); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{tokenOfA, tokenOfB, newTokenOfB, "t0ken-of-the-test"} {
		if strings.Contains(p.log.String(), token) {
			t.Errorf("%s is in the log", token)
		}
	}
}

// complaints counts the log's errors about the token file that say what.
func (p *operatorProcess) complaints(what string) (n int) {
	for _, line := range strings.Split(p.log.String(), "\n") {
		if strings.Contains(line, `"level":"error"`) && strings.Contains(line, "stay in force") && strings.Contains(line, what) {
			n++
		}
	}
	return n
}
