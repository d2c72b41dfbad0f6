package provider_test

import (
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestNamedFor(t *testing.T) {
	t.Parallel()
	const uid = "5f0e7c1a-0000-4000-8000-000000000001"
	name := provider.NameFromUID(uid)
	for id, want := range map[string]bool{
		"projects/p/zones/z/instances/" + name: true, "hosts/h/processes/" + name: true, "namespace/" + name: true,
		"": false, "zones/z/instances/": false, "zones/z/instances/clone": false, "zones/z/instances/" + name + "-1": false,
		"zones/z/instances/x" + name: false, "zones/z/instances/" + name + "/": false, "zones/" + name + "/instances/clone": false,
		"zones/z/instances/" + provider.NameFromUID("another"): false,
	} {
		if got := provider.NamedFor(id, uid); got != want {
			t.Errorf("%q: %v, want %v", id, got, want)
		}
	}
}

func TestValidSpecMark(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]bool{
		provider.SpecMark(provider.SpecInput{UID: "u"}): true, "v1-0": true, "v2-anything_else": true, "v12-0": true,
		"": false, "v1": false, "v1-": false, "v-0": false, "1-0": false, "V1-0": false, "xv1-0": false, "vx-0": false, "whatever": false,
	} {
		if got := provider.ValidSpecMark(mark); got != want {
			t.Errorf("%q: %v, want %v", mark, got, want)
		}
	}
}
