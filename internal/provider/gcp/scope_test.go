package gcp_test

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// TestScopeIsWhatGetSays: a reload goes by the one, passes by the other.
func TestScopeIsWhatGetSays(t *testing.T) {
	t.Parallel()
	const name = "proxy-abcdefghij234567"
	valid := []string{
		"projects/project-a/zones/us-central1-a/instances/" + name, "projects/project-a/zones/europe-west1-b/instances/" + name,
		"projects/project-b/zones/us-central1-a/instances/" + name,
	}
	for regions, want := range map[string][]bool{
		"": {true, true, false}, "regions: [us-central1]\n": {true, false, false}, "regions: [asia-east1]\n": {false, false, false},
	} {
		w := newWorld(providertest.Go(t), gcpemulator.Options{})
		w.extra = regions
		p := w.provider()
		for i, id := range append(valid, "", "projects/project-a", "projects/project-a/zones/us-central1-a/instances/vm",
			"projects/project-a/zones/us-central1-a/instances/"+name+"/x", "x"+valid[0], "projects//zones/us-central1-a/instances/"+name,
			"projects/project-a/zones/US/instances/"+name) {
			_, err := p.Get(t.Context(), provider.Ref{ID: id, UID: "u", Attempt: 1})
			scope := p.InScope(id)
			if outside := provider.Reason(err) == provider.ReasonScopeMismatch; outside != (scope != nil) || outside && scope.Error() != err.Error() {
				t.Errorf("%q: %q: InScope says %v, Get %v", regions, id, scope, err)
			}
			if i < len(valid) && (scope == nil) != want[i] {
				t.Errorf("%q: %q: %v, want in scope %v", regions, id, scope, want[i])
			}
		}
		if err := p.Close(); err != nil || p.InScope(valid[2]) == nil || len(p.Sites(valid[0])) > 0 {
			t.Errorf("after Close: %v", err)
		}
	}
}
