package identity

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// Two operators, each confined to a namespace of one cluster. With the same marks, which --installation-id makes possible,
// nothing but the mark of the namespace tells their instances apart: to each the other's Proxies do not exist.
func TestNamespacedOperators(t *testing.T) {
	t.Parallel()
	same, other := provider.Owner{Installation: "crawl", Cluster: "here"}, provider.Owner{Installation: "archive", Cluster: "here"}
	for name, tc := range map[string]struct {
		owner   provider.Owner // of the second one
		collect bool
	}{
		"same installation ID, with --gc-allow-namespaced":    {same, true},
		"same installation ID, without --gc-allow-namespaced": {same, false},
		"installation IDs of their own":                       {other, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, providertest.KindGCP) // a namespace is nothing that a backend knows of
			c := w.cluster()
			a := w.operator(settings{name: "A", owner: same, at: c, namespace: "a", collects: tc.collect})
			b := w.operator(settings{name: "B", owner: tc.owner, at: c, namespace: "b", collects: tc.collect})
			withoutTheOther(w, a, b)
			withoutTheOther(w, b, a)
		})
	}
}

// withoutTheOther takes one operator down. Of its Proxies one is deleted and another lost meanwhile, and so is one of the
// one's that stays up.
func withoutTheOther(w *world, up, down *operator) {
	w.t.Helper()
	mine, theirs := up.pair(), down.pair()
	w.until("both serve", func() bool { return up.serves(mine...) && down.serves(theirs...) })
	uids := []types.UID{up.at.uid(theirs[0]), up.at.uid(theirs[1])}
	before, lost := w.of(down.owner, uids...), w.of(up.owner, up.at.uid(mine[1]))
	down.down = true
	down.at.delete(theirs[0])
	down.at.lose(theirs[1])
	up.at.lose(mine[1])
	w.rounds(long)
	w.untouched(before, "their operator was down")
	expectCollected(w, up, lost[0].Marks.UID)
	if !up.serves(mine[0]) {
		w.t.Errorf("%s no longer serves:\n%s", up.name, w.describe())
	}

	down.start()
	w.until("the deleted one is gone", func() bool { return down.at.gone(theirs[0]) })
	w.rounds(long)
	expectCollected(w, down, string(uids[1]))
	w.nothing(w.of(down.owner, uids[0]), "the instance of a deleted Proxy")
	up.at.delete(mine[0])
	w.until("all is gone", func() bool { return up.at.gone(mine[0]) })
}

// pair makes two Proxies in the operator's namespace; both operators use the same names.
func (o *operator) pair() []types.NamespacedName {
	o.w.t.Helper()
	n := o.w.uids / 4
	return []types.NamespacedName{
		o.at.proxy(o.namespace, fmt.Sprintf("one-%d", n)), o.at.proxy(o.namespace, fmt.Sprintf("two-%d", n)),
	}
}

// expectCollected checks that exactly o's collector, if it may collect at all, took the orphan of that UID, and nothing else
// since the last check.
func expectCollected(w *world, o *operator, uid string) {
	w.t.Helper()
	left := w.of(o.owner, types.UID(uid))
	if !o.collects {
		if len(left) != 1 || len(o.collected) > 0 {
			w.t.Errorf("%s may not collect: of the orphan there is %v, collected was %v", o.name, left, o.collected)
		}
		return
	}
	if len(left) > 0 || len(o.collected) != 1 || o.collected[0].UID != uid {
		w.t.Errorf("%s collected %v, want the orphan of %s; of it there is %v", o.name, o.collected, uid, left)
	}
	o.collected = nil
}
