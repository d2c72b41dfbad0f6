package kubernetes_test

import (
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// TestScopeIsWhatGetSays: a reload goes by the one, passes by the other.
func TestScopeIsWhatGetSays(t *testing.T) {
	t.Parallel()
	x := newTenant(t)
	names := []string{"crawlers/proxy-abcdefghij234567", "other/proxy-abcdefghij234567"}
	for config, want := range map[string][]bool{
		"":                                {true, true},
		"namespace: crawlers\n":           {true, false},
		"namespaces: [other, third]\n":    {false, true},
		"namespaces: [crawlers, other]\n": {true, true},
		"namespace: elsewhere\n":          {false, false},
	} {
		p := x.provider(config)
		for i, id := range append(names, "", "proxy-abcdefghij234567", "crawlers/", "crawlers/proxy-ABC", "a/b/c", "/proxy-abcdefghij234567",
			"crawlers/proxy-abcdefghij234567/x", "Crawlers/proxy-abcdefghij234567") {
			_, err := p.Get(t.Context(), provider.Ref{ID: id, UID: "u", Attempt: 1})
			scope := p.InScope(id)
			if outside := provider.Reason(err) == provider.ReasonScopeMismatch; outside != (scope != nil) || outside && scope.Error() != err.Error() {
				t.Errorf("%q: %q: InScope says %v, Get %v", config, id, scope, err)
			}
			if i < len(names) && (scope == nil) != want[i] {
				t.Errorf("%q: %q: %v, want in scope %v", config, id, scope, want[i])
			}
		}
		if got := p.Sites(names[0]); len(got) != 1 || got[0] != x.server.URL {
			t.Errorf("sites %q, want the API server's", got)
		}
	}
}

func TestScopeIsToldAfterClose(t *testing.T) {
	t.Parallel()
	p := newTenant(t).provider("namespace: crawlers\n")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if p.InScope("crawlers/proxy-abcdefghij234567") != nil || p.InScope("other/proxy-abcdefghij234567") == nil || len(p.Sites("")) != 1 {
		t.Error("a closed provider tells another scope")
	}
}

// TestAnotherServerIsAnotherSite whatever the file that leads to it is called.
func TestAnotherServerIsAnotherSite(t *testing.T) {
	t.Parallel()
	x, y := newTenant(t), newTenant(t)
	x.file = filepath.Join(t.TempDir(), "same-server")
	before, renamed := y.provider(""), ""
	x.write(y.server.URL, "token-1")
	if got := x.provider("").Sites(renamed); got[0] != before.Sites("")[0] {
		t.Errorf("the same server in another file is another site: %q", got)
	}
	x.write(x.server.URL, "token-1")
	if got := x.provider("").Sites(""); got[0] == before.Sites("")[0] {
		t.Errorf("another server is the same site: %q", got)
	}
}
