package identity

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// clone copies the Proxy's instance by hand, with all its labels, into both zones.
func (w *world) clone(at *cluster, key types.NamespacedName, suffix string) {
	w.t.Helper()
	original := w.all()[at.get(key).Status.ProviderID]
	w.place(original.ID+suffix, "a clone beside the original", original.Marks.ToMap())
	w.place("zones/zone-b/instances/"+key.Namespace+"-"+key.Name+suffix, "a clone under a name of its own", original.Marks.ToMap())
}

// Somebody cloned the machines, as it is done to look into a problem, and the clones have all the marks. They are not this
// operator's, whatever becomes of the Proxies whose marks they are: neither strays of the living nor orphans of the dead, and
// no reason to keep an object.
func TestClonedMachines(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})
		keys := o.fleet()
		lost := o.at.proxy("team", "lost")
		w.until("the fleet serves", func() bool { return o.serves(append(keys, lost)...) })
		originals := w.of(crawl)
		for _, key := range append(keys, lost) {
			w.clone(o.at, key, "-1")
		}
		clones := w.foreign()
		w.rounds(long)
		w.untouched(append(originals, clones...), "the fleet was cloned")
		if !o.serves(append(keys, lost)...) || len(o.collected) > 0 {
			w.t.Errorf("the fleet suffers from its clones, or something was collected (%v):\n%s", o.collected, w.describe())
		}
		for _, happens := range []struct {
			what string
			do   func()
		}{
			{"a replacement asked for", func() { o.at.edit(keys[0], ask("now")) }},
			{"an instance that vanished", func() { w.backend.Vanish(o.at.get(keys[1]).Status.ProviderID) }},
			{"a status that got lost", func() { o.at.setStatus(keys[2], v1alpha1.ProxyStatus{}) }},
			{"a restart", o.start},
			{"a lost Proxy", func() { o.at.lose(lost) }},
			{"clones of what has been made since", func() { w.clone(o.at, keys[0], "-2"); clones = w.foreign() }},
		} {
			happens.do()
			w.rounds(2)
			w.until("the fleet serves again", func() bool { return o.serves(keys...) })
			w.untouched(clones, happens.what)
		}
		w.rounds(long)
		if len(o.collected) != 1 || o.collected[0].Name != "lost" {
			w.t.Errorf("collected %v, want the lost one and none of its clones", o.collected)
		}
		o.at.delete(keys...)
		w.until("the Proxies are gone", func() bool { return o.at.gone(keys...) })
		w.rounds(2 * long)
		w.untouched(clones, "the Proxies were deleted")
		if left := w.of(crawl); len(left) != len(clones) || len(o.collected) != 1 {
			w.t.Errorf("left are %v, want the clones alone; collected were %v", left, o.collected)
		}
	})
}
