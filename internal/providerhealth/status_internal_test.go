package providerhealth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// An object has to be small enough for etcd, however much there is to tell.
func TestDetailsOfAllTargetsAreBounded(t *testing.T) {
	details := map[string]v1alpha1.ProviderDetail{}
	for i := range 16 {
		details[fmt.Sprintf("key-%02d", i)] = v1alpha1.ProviderDetail(strings.Repeat("x", 250))
	}
	var all []v1alpha1.ProviderTarget
	for i := range 300 {
		all = append(all, v1alpha1.ProviderTarget{Target: fmt.Sprintf("h%03d", i), Ready: i < 280, Details: details})
	}
	size := 0
	for _, target := range shown(all) {
		if !target.Ready && target.Details == nil {
			t.Errorf("%s is not ready and has no details", target.Target)
		}
		for k, v := range target.Details {
			size += len(k) + len(v)
		}
	}
	if size == 0 || size > maxDetails {
		t.Errorf("%d bytes of details", size)
	}
	if all[0].Details == nil || len(all) != 300 {
		t.Error("what is known was changed")
	}
}
