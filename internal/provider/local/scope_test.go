package local_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestScopeIsWhatGetSays: a reload goes by the one, passes by the other.
func TestScopeIsWhatGetSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	of := func(host, dir string) *local.Provider {
		t.Helper()
		block, err := registry.ParseBlock(local.Type, fmt.Appendf(nil, "host: %s\nstateDir: %s\nbinary: /bin/true\npool: [{listen: 127.0.0.1}]\n", host, dir))
		if err != nil {
			t.Fatal(err)
		}
		p, err := local.New(t.Context(), provider.Options{
			Name: "host", Block: block, Owner: provider.Owner{Installation: "i", Cluster: "c"},
			Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.(*local.Provider).Close() })
		return p.(*local.Provider)
	}
	const name = "proxy-abcdefghij234567"
	valid := []string{"hosts/h1/processes/" + name, "hosts/h2/processes/" + name}
	p := of("h1", filepath.Join(dir, "a"))
	for i, id := range append(valid, "", "hosts/h1", "hosts/h1/processes/x", "hosts/h1/processes/"+name+"/x", "hosts//processes/"+name, "hosts/h1/domains/"+name) {
		_, err := p.Get(t.Context(), provider.Ref{ID: id, UID: "u", Attempt: 1})
		scope := p.InScope(id)
		if outside := provider.Reason(err) == provider.ReasonScopeMismatch; outside != (scope != nil) || outside && scope.Error() != err.Error() {
			t.Errorf("%q: InScope says %v, Get %v", id, scope, err)
		}
		if (scope == nil) != (i == 0) {
			t.Errorf("%q: %v", id, scope)
		}
	}
	if here, there := p.Sites(valid[0]), of("h1", filepath.Join(dir, "b")).Sites(valid[0]); len(here) != 1 || here[0] == there[0] {
		t.Errorf("sites %q and %q: another folder is another site", here, there)
	}
}
