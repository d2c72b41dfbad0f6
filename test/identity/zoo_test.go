package identity

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// dead is a Proxy that there never was.
const dead types.UID = "6f1c3d1e-0000-4000-8000-00000000dead"

// zoo puts strangers of every sort into both zones, under names of their own: with the marks of a living Proxy, as if they
// were its strays, and with those of a dead one, as if they were orphans.
func (o *operator) zoo(round string, key types.NamespacedName, living types.UID) {
	o.w.t.Helper()
	for zone, marked := range map[string][]disguise{"zone-a": disguises(key, living), "zone-b": disguises(key, dead)} {
		for i, d := range marked {
			o.w.place(fmt.Sprintf("zones/%s/instances/%s-%d", zone, round, i), d.name, d.labels)
		}
	}
}

// A fleet lives through everything that can happen to one, is deleted, and is swept after, among strangers that were there
// all the time and others that have just come.
func TestForeignInstancesSurviveEverything(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})
		keys := o.fleet()
		lost := o.at.proxy("team", "lost")
		living := o.at.uid(keys[0])
		o.zoo("early", keys[0], living)
		before := w.foreign()
		w.until("the fleet serves", func() bool { return o.serves(append(keys, lost)...) })
		orphan := w.of(crawl, o.at.uid(lost))[0].Marks.UID
		for _, happens := range []struct {
			what string
			do   func()
		}{
			{"a replacement asked for", func() { o.at.edit(keys[0], ask("now")) }},
			{"another port", func() { o.at.edit(keys[1], toPort(8080)) }},
			{"another zone", func() { o.at.edit(keys[2], inZone("zone-b")); o.at.edit(keys[2], toPort(8081)) }},
			{"an instance that stopped", func() { w.backend.Stop(o.at.get(keys[0]).Status.ProviderID, "") }},
			{"an instance that vanished", func() { w.backend.Vanish(o.at.get(keys[1]).Status.ProviderID) }},
			{"a status that got lost", func() { o.at.setStatus(keys[2], v1alpha1.ProxyStatus{}) }},
			{"a restart", o.start},
			{"a lost Proxy", func() { o.at.lose(lost) }},
			{"more strangers", func() { o.zoo("late", keys[0], living); before = w.foreign() }},
		} {
			happens.do()
			w.rounds(2)
			w.until("the fleet serves again", func() bool { return o.serves(keys...) })
			w.untouched(before, happens.what)
		}
		w.rounds(long)
		if len(o.collected) != 1 || o.collected[0].UID != orphan {
			w.t.Errorf("collected %v, want the one orphan", o.collected)
		}
		o.at.delete(keys...)
		w.until("the fleet is gone", func() bool { return o.at.gone(keys...) })
		o.zoo("last", keys[0], living) // whose Proxy is dead by now
		before = w.foreign()
		w.rounds(2 * long)
		w.untouched(before, "everything of ours was deleted")
		w.nothing(w.of(crawl), "something of ours")
		if len(o.collected) != 1 {
			w.t.Errorf("collected %v, want the one orphan and nothing since", o.collected)
		}
	})
}

// The collector takes only what this operator could have written: every mark has to parse, those that no call compares
// included. All are under the name that goes with their UID, so that nothing but the marks is odd.
func TestMarksThatNobodyWroteAreNotCollected(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})
		keys := o.fleet()
		whole := provider.Marks{
			UID: string(dead), Namespace: "team", Name: "dead", Installation: crawl.Installation, Cluster: crawl.Cluster,
			Spec: "v1-0123456789abcdef", Attempt: 1,
		}
		// What does parse, under the name that goes with it, shows that the sweeps collect.
		control, newer := "zones/zone-a/instances/"+provider.NameFromUID(whole.UID), "zones/zone-b/instances/"+provider.NameFromUID(whole.UID)
		w.backend.Place(control, whole.ToMap(), 3128)
		later := whole
		later.Spec = "v2-whatever-a-newer-operator-writes"
		w.backend.Place(newer, later.ToMap(), 3128)
		for name, change := range map[string]func(*provider.Marks){
			"no-namespace":  func(m *provider.Marks) { m.Namespace = "" },
			"odd-namespace": func(m *provider.Marks) { m.Namespace = "no namespace" },
			"no-name":       func(m *provider.Marks) { m.Name = "" },
			"odd-name":      func(m *provider.Marks) { m.Name = "no/name" },
			"odd-uid":       func(m *provider.Marks) { m.UID = "to be filled in" },
			"half-a-uid":    func(m *provider.Marks) { m.UID = m.UID[:18] },
			"no-spec":       func(m *provider.Marks) { m.Spec = "" },
			"odd-spec":      func(m *provider.Marks) { m.Spec = "whatever" },
		} {
			m := whole
			m.UID = string(w.uid())
			change(&m)
			w.place("zones/zone-a/instances/"+provider.NameFromUID(m.UID), name, m.ToMap())
		}
		before := w.foreign()
		w.until("the fleet serves", func() bool { return o.serves(keys...) })
		w.rounds(long)
		w.untouched(before, "many sweeps")
		for _, id := range []string{control, newer} {
			if _, left := w.all()[id]; left {
				w.t.Errorf("%s, an orphan by all its marks, is still there: the sweeps show nothing", id)
			}
		}
	})
}
