package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Pages one after the other are the whole sorted list, whatever the selector, the size of the page and the proxy that
// they go on behind, which may be gone by then.
func TestPagesAddUpToTheList(t *testing.T) {
	s := fleet.NewStore()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		key := types.NamespacedName{Namespace: fmt.Sprintf("n%d", random.IntN(3)), Name: fmt.Sprintf("p%03d", random.IntN(400))}
		if i%7 == 0 {
			s.Remove(key, "u")
			continue
		}
		s.Apply(&fleet.Proxy{
			Key: key, UID: "u", Mode: v1alpha1.ModeManaged, Endpoint: fleet.Endpoint{Host: fmt.Sprint(random.IntN(200)), Port: 1},
			Attributes: map[string]string{"half": fmt.Sprint(i % 2), "percent": fmt.Sprint(i % 50)},
		})
	}
	for name, selector := range map[string]map[string]string{
		"everything": nil, "half": {"half": "1"}, "few": {"percent": "3"}, "few of half": {"half": "1", "percent": "3"},
		"none": {"percent": "absent"}, "nothing in common": {"half": "0", "percent": "3"},
	} {
		for _, limit := range []int{1, 7, 1000} {
			for which, keep := range map[string]func(*fleet.Proxy) bool{
				"all": func(*fleet.Proxy) bool { return true }, "n1": func(p *fleet.Proxy) bool { return p.Key.Namespace == "n1" },
				"claimed": func(p *fleet.Proxy) bool { return !p.AddressLost },
			} {
				var got []*fleet.Proxy
				var after *types.NamespacedName
				for more := true; more; {
					var page []*fleet.Proxy
					page, more = s.Page(after, selector, limit, keep)
					if len(page) > limit || more && len(page) < limit {
						t.Fatalf("a page of %d, limit %d, more %v", len(page), limit, more)
					}
					if got = append(got, page...); len(page) > 0 {
						after = &page[len(page)-1].Key
					}
				}
				want := slices.DeleteFunc(s.List("", selector), func(p *fleet.Proxy) bool { return !keep(p) })
				if !slices.Equal(got, want) {
					t.Errorf("%s, limit %d, %s: %d in pages, %d in the list", name, limit, which, len(got), len(want))
				}
			}
		}
	}
	page, _ := s.Page(&types.NamespacedName{Namespace: "n1", Name: "p1"}, nil, 1, func(*fleet.Proxy) bool { return true })
	if len(page) != 1 || page[0].Key.Namespace != "n1" || page[0].Key.Name <= "p1" {
		t.Errorf("behind a proxy that is not there: %v", page)
	}
}
