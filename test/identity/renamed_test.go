package identity

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// An operator that was given another installation ID finds its own fleet foreign. It says so at every Proxy and touches
// nothing; given the old ID again it goes on as if nothing had been, and picks up what was orphaned meanwhile.
func TestChangedInstallationID(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		old, renamed := provider.Owner{Installation: "before", Cluster: "here"}, provider.Owner{Installation: "after", Cluster: "here"}
		o := w.operator(settings{name: "operator", owner: old, at: w.cluster()})
		kept, edited, stopped, deleted := o.at.proxy("team", "kept"), o.at.proxy("team", "edited"), o.at.proxy("team", "stopped"), o.at.proxy("team", "deleted")
		w.until("the fleet serves", func() bool { return o.serves(kept, edited, stopped, deleted) })
		before, keptOne := w.of(old), w.of(old, o.at.uid(kept))
		w.backend.Stop(o.at.planned(stopped, "zone-a"), "")

		o.restartAs(renamed)
		w.round()
		expectRenamed(w, o, kept, edited, stopped, deleted)
		o.at.edit(edited, toPort(8080), ask("now"))
		o.at.delete(deleted)
		fresh := o.at.proxy("team", "fresh")
		w.rounds(long)
		w.untouched(before, "the installation ID was changed")
		expectRenamed(w, o, kept, edited, stopped)
		if !o.at.gone(deleted) || !o.serves(fresh) || len(o.collected) > 0 {
			w.t.Errorf("the Proxy of an instance that is foreign now has to go, a new one to serve, nothing to be collected (%v):\n%s", o.collected, w.describe())
		}
		since := w.of(renamed)

		o.restartAs(old)
		w.until("everything heals", func() bool { return o.serves(kept, edited, stopped) && o.at.conflicts(fresh) })
		w.rounds(long)
		w.untouched(since, "the installation ID was changed back")
		w.untouched(keptOne, "the installation ID was changed and changed back")
		if len(o.collected) != 1 || o.collected[0].Name != "deleted" {
			w.t.Errorf("collected were %v, want what was deleted meanwhile", o.collected)
		}
	})
}

// expectRenamed checks what a person sees at Proxies whose instances belong to the installation of before.
func expectRenamed(w *world, o *operator, keys ...types.NamespacedName) {
	w.t.Helper()
	for _, key := range keys {
		want := `it belongs to installation "before", this is "after"`
		if p := o.at.get(key); !o.at.conflicts(key) || !strings.Contains(message(p), want) || o.serves(key) {
			w.t.Errorf("%s: %s %s: %q, want a Conflict that says %q", key, p.Status.Phase, reason(p), message(p), want)
		}
	}
}

// The cluster's mark is no setting, but a fleet restored into another cluster meets the same.
func TestFleetRestoredIntoAnotherCluster(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		here, there := provider.Owner{Installation: "crawl", Cluster: "here"}, provider.Owner{Installation: "crawl", Cluster: "there"}
		o := w.operator(settings{name: "operator", owner: here, at: w.cluster()})
		keys := o.fleet()
		w.until("the fleet serves", func() bool { return o.serves(keys...) })
		before := w.of(here)
		o.restartAs(there)
		w.rounds(long)
		for _, key := range keys {
			if !o.at.conflicts(key) {
				w.t.Errorf("%s has to conflict:\n%s", key, w.describe())
			}
		}
		o.at.delete(keys...)
		w.until("the copies are gone", func() bool { return o.at.gone(keys...) })
		w.rounds(long)
		w.untouched(before, "its Proxies were deleted in another cluster")
	})
}
