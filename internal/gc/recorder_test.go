package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestOrphansAreCountedBeforeTheyAreDue: whoever looks at a dashboard sees a leak before anything is done about it.
func TestOrphansAreCountedBeforeTheyAreDue(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.create(x.proxy("alive"), "")
	x.place("zone-b", x.dead("young"))
	x.sweep()
	if n := x.metrics.orphans[cloud]; n != 1 {
		t.Errorf("%d orphans while one is too young", n)
	}
	x.grow()
	x.twice()
	x.sweep()
	if n := x.metrics.orphans[cloud]; n != 0 {
		t.Errorf("%d orphans after the collection", n)
	}
}

// TestAProviderThatIsGoneIsTold: its series end.
func TestAProviderThatIsGoneIsTold(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.sweep()
	x.metrics.take()
	x.entries = nil
	x.sweepAll()
	x.sweepAll()
	if got := x.metrics.take(); !slices.Equal(got, []string{"gone cloud"}) {
		t.Errorf("told %q", got)
	}
}

// slowly is a provider whose lists take that long by the rig's clock.
type slowly struct {
	provider.Provider
	pass func()
}

func (s slowly) ListByTag(ctx ctxT) (provider.Listing, error) {
	s.pass()
	return s.Provider.ListByTag(ctx)
}

func TestASweepIsTimed(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{}, func(o *gc.Options) { o.Interval = time.Hour })
	x.entry(cloud, slowly{x.provider(mine()), func() { x.clock.Step(7 * time.Second) }})
	x.sweep()
	if x.metrics.took != 7*time.Second {
		t.Errorf("the sweep took %s", x.metrics.took)
	}
}
