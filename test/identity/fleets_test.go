package identity

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// strangers are the ways in which two operators can be no part of one another.
func strangers() map[string][2]provider.Owner {
	return map[string][2]provider.Owner{
		"same installation ID in two clusters": {{Installation: "crawl", Cluster: "one"}, {Installation: "crawl", Cluster: "two"}},
		"two installations in one cluster":     {{Installation: "crawl", Cluster: "one"}, {Installation: "archive", Cluster: "one"}},
	}
}

// everyPair runs test with two whole operators that are strangers to each other, each at an API server of its own.
func everyPair(t *testing.T, test func(w *world, a, b *operator)) {
	t.Parallel()
	for name, owners := range strangers() {
		t.Run(name, func(t *testing.T) {
			everyKind(t, func(_ *testing.T, w *world) {
				a := w.operator(settings{name: "A", owner: owners[0], at: w.cluster()})
				b := w.operator(settings{name: "B", owner: owners[1], at: w.cluster()})
				test(w, a, b)
			})
		})
	}
}

// fleet makes a few Proxies, under the same names everywhere.
func (o *operator) fleet() []types.NamespacedName {
	o.w.t.Helper()
	return []types.NamespacedName{
		o.at.proxy("team", "exit-1"), o.at.proxy("team", "exit-2", inZone("zone-b")), o.at.proxy("other", "exit-1"),
	}
}

// Each in turn loses everything, in every way there is, while the other looks on.
func TestTwoFleetsOnOneBackend(t *testing.T) {
	everyPair(t, func(w *world, a, b *operator) {
		theirs := map[*operator][]types.NamespacedName{a: a.fleet(), b: b.fleet()}
		w.until("both fleets served", func() bool { return a.serves(theirs[a]...) && b.serves(theirs[b]...) })
		for _, turn := range [][2]*operator{{a, b}, {b, a}} {
			loser, other := turn[0], turn[1]
			keys, before := theirs[loser], w.of(other.owner)
			left := w.of(loser.owner, loser.at.uid(keys[0]))
			loser.at.lose(keys[0])
			loser.down = true
			w.rounds(long)
			w.untouched(left, "an orphan's own operator was away")
			loser.start()
			loser.at.delete(keys[1:]...)
			w.until("everything is deleted", func() bool { return loser.at.gone(keys...) && len(w.of(loser.owner)) == 0 })
			w.rounds(long)
			w.untouched(before, loser.name+" lost its fleet")
			if len(loser.collected) != 1 || len(other.collected) > 1 {
				w.t.Errorf("%s collected %v, %s collected %v", loser.name, loser.collected, other.name, other.collected)
			}
			if !other.serves(theirs[other]...) {
				w.t.Errorf("%s suffers from what %s lost:\n%s", other.name, loser.name, w.describe())
			}
			theirs[loser] = loser.fleet()
			w.until("the lost fleet is made anew", func() bool { return loser.serves(theirs[loser]...) })
		}
	})
}

// An etcd restored elsewhere: both clusters have a Proxy of the same UID, so both want the same name on the backend. Who
// comes first has it; the other says so for as long as it lasts, whatever its user does, and can be deleted.
func TestSameUIDOnBothSides(t *testing.T) {
	everyPair(t, func(w *world, a, b *operator) {
		ka, kb := collide(w, a, b)
		before := w.of(a.owner)
		for _, l := range before {
			w.guarded[l.ID] = "an instance of A"
		}
		for _, change := range []struct {
			what string
			do   func()
		}{
			{"B wanted its names", func() {}},
			{"B's Proxies were edited", func() {
				for _, key := range kb {
					b.at.edit(key, toPort(8080), ask("now"))
				}
			}},
			{"B restarted", b.start},
			{"B's Proxies were deleted", func() { b.at.delete(kb...) }},
		} {
			change.do()
			w.rounds(long)
			w.untouched(before, change.what)
			for _, key := range kb {
				if p := b.at.get(key); p != nil && !b.at.conflicts(key) {
					w.t.Errorf("after %s: %s has to conflict:\n%s", change.what, key, w.describe())
				}
			}
			if !a.serves(ka...) {
				w.t.Errorf("after %s: A no longer serves:\n%s", change.what, w.describe())
			}
		}
		if !b.at.gone(kb...) {
			w.t.Errorf("B's Proxies cannot be deleted:\n%s", w.describe())
		}
	})
}

// collide gives b Proxies with the UIDs of a's: one whose instance stands already, and one where both begin in the same
// round, so that a's creation is on its way when b's is sent.
func collide(w *world, a, b *operator) (ka, kb []types.NamespacedName) {
	w.t.Helper()
	pair := func(name string) {
		key := types.NamespacedName{Namespace: "team", Name: name}
		kb = append(kb, b.at.proxy(key.Namespace, key.Name, withUID(a.at.uid(key))))
	}
	ka = []types.NamespacedName{a.at.proxy("team", "first")}
	w.until("A serves", func() bool { return a.serves(ka...) })
	pair("first")
	ka = append(ka, a.at.proxy("team", "at-once"))
	pair("at-once")
	w.until("A serves and B conflicts", func() bool { return a.serves(ka...) && b.at.conflicts(kb[0]) && b.at.conflicts(kb[1]) })
	for _, key := range kb {
		m := w.all()[b.at.planned(key, "zone-a")].Marks
		if text, want := message(b.at.get(key)), b.owner.Foreign(m, m.UID); want == nil || !strings.Contains(text, want.Error()) {
			w.t.Errorf("%s does not say whose its instance's place is: %q, want %v", key, text, want)
		}
	}
	return ka, kb
}

// The name passes to the second one when the first gives it up, and the first, whose collector knows the UID as dead,
// leaves it alone there.
func TestTheNamePassesOn(t *testing.T) {
	everyPair(t, func(w *world, a, b *operator) {
		ka := a.at.proxy("team", "exit")
		w.until("A serves", func() bool { return a.serves(ka) })
		kb := b.at.proxy("team", "exit", withUID(a.at.uid(ka)))
		w.until("B conflicts", func() bool { return b.at.conflicts(kb) })
		a.at.edit(ka, ask("again")) // the second attempt's token may be known to the backend, too
		w.until("A has its second instance", func() bool { p := a.at.get(ka); return p.Status.Instance.Attempt > 1 && a.serves(ka) })
		w.until("B conflicts again", func() bool { return b.at.conflicts(kb) })
		a.at.delete(ka)
		w.until("B serves", func() bool { return b.serves(kb) })
		before := w.of(b.owner)
		w.rounds(long)
		w.untouched(before, "A's Proxy of that UID died")
	})
}

// In different zones the two do not meet, although backends with tokens know both creations under one.
func TestSameUIDInTwoZones(t *testing.T) {
	everyPair(t, func(w *world, a, b *operator) {
		ka := a.at.proxy("team", "exit")
		kb := b.at.proxy("team", "exit", withUID(a.at.uid(ka)), inZone("zone-b"))
		w.until("both serve", func() bool { return a.serves(ka) && b.serves(kb) })
		w.rounds(long)
		before := w.of(b.owner)
		a.at.delete(ka)
		w.until("A's is gone", func() bool { return a.at.gone(ka) && len(w.of(a.owner)) == 0 })
		w.rounds(long)
		w.untouched(before, "the other zone's was deleted")
		b.at.delete(kb)
		w.until("B's is gone", func() bool { return b.at.gone(kb) })
		w.nothing(w.of(b.owner), "B's instance")
	})
}
