package registry

import (
	"slices"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// TestNothingIsSaidOfAnEntryThatIsBack: the last word of the one before comes too late then.
func TestNothingIsSaidOfAnEntryThatIsBack(t *testing.T) {
	var told []string
	r := &Registry{opts: BuildOptions{Gone: func(name string) { told = append(told, name) }}, stop: make(chan struct{})}
	r.handles.Store(&map[string]Handle{"back": {Name: "back"}})
	drained := instrument.Retire(struct{ provider.Provider }{}) // without a guard nobody is on it
	r.tell("back", drained)
	r.tell("gone", drained)
	if !slices.Equal(told, []string{"gone"}) {
		t.Errorf("gone are %q, want gone alone", told)
	}
}
