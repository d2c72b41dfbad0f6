package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// victim is a Proxy, served by its instance, whose whole status somebody puts onto another Proxy.
type victim struct {
	w        *world
	o        *operator
	x        types.NamespacedName
	status   v1alpha1.ProxyStatus
	instance []providertest.Leftover
}

// newVictim makes the Proxy. Its name decides who of the two wins an address that both claim.
func newVictim(w *world, name string) victim {
	w.t.Helper()
	o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})
	x := o.at.proxy("team", name)
	w.until("X serves", func() bool { return o.serves(x) })
	return victim{w: w, o: o, x: x, status: o.at.get(x).Status, instance: w.of(o.owner)}
}

// copies makes Proxies of every sort onto which a status may be copied.
func (v victim) copies() map[string]types.NamespacedName {
	v.w.t.Helper()
	served := map[string]types.NamespacedName{
		"a Proxy that serves":    v.o.at.proxy("team", "copy-1"),
		"a Proxy elsewhere":      v.o.at.proxy("team", "copy-2", inZone("zone-b")),
		"a Proxy that conflicts": v.o.at.proxy("team", "copy-3"),
	}
	v.w.place(v.o.at.planned(served["a Proxy that conflicts"], "zone-a"), "a machine without labels", nil)
	v.w.until("the others serve", func() bool { return v.o.serves(served["a Proxy that serves"], served["a Proxy elsewhere"]) })
	served["a Proxy that was never looked at"] = v.o.at.proxy("team", "copy-4")
	served["a Proxy of another namespace"] = v.o.at.proxy("other", "exit")
	return served
}

// overwrite puts the status of X onto all of them.
func (v victim) overwrite(copies map[string]types.NamespacedName) {
	v.w.t.Helper()
	for _, y := range copies {
		v.o.at.setStatus(y, v.status)
	}
}

// expectConflicts checks that every copy is seen through.
func (v victim) expectConflicts(copies map[string]types.NamespacedName) {
	v.w.t.Helper()
	want := fmt.Sprintf("it belongs to Proxy UID %q", v.o.at.uid(v.x))
	for what, y := range copies {
		if p := v.o.at.get(y); !v.o.at.conflicts(y) || !strings.Contains(message(p), want) || v.o.serves(y) {
			v.w.t.Errorf("%s has a copied status and must say so, with %s in the message:\n%s", what, want, v.w.describe())
		}
	}
}

// survives checks that X has lost nothing.
func (v victim) survives(after string) {
	v.w.t.Helper()
	v.w.untouched(v.instance, after)
	if !v.o.serves(v.x) {
		v.w.t.Errorf("after %s X no longer serves:\n%s", after, v.w.describe())
	}
}

func TestCopiedStatus(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		v := newVictim(w, "victim")
		at := v.o.at
		copies := v.copies()
		strangers := w.foreign()
		v.overwrite(copies)
		w.round()
		v.expectConflicts(copies)
		w.rounds(long)
		v.survives("its status was copied")
		for _, y := range copies {
			at.edit(y, toPort(8080), ask("now"))
		}
		w.rounds(long / 2)
		v.expectConflicts(copies)
		v.survives("the copies were edited")
		v.o.start()
		w.rounds(2)
		v.expectConflicts(copies)
		keys := slices.Collect(maps.Values(copies))
		at.delete(keys...)
		w.until("the copies are gone", func() bool { return at.gone(keys...) })
		w.rounds(long)
		v.survives("the copies were deleted")
		w.untouched(strangers, "the copies were deleted")
		if left := w.of(v.o.owner); len(left) != 1 {
			w.t.Errorf("there is %v, want X's instance alone", left)
		}
	})
}

// The operator comes up and believes what is on record, the verdict included, until the first pass. Which of the two that
// claim one address has it until then is a matter of their names.
func TestStatusCopiedWhileTheOperatorWasDown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a-victim", "victim"} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, func(_ *testing.T, w *world) {
				v := newVictim(w, name)
				copies := v.copies()
				v.overwrite(copies)
				v.o.start()
				w.round()
				v.expectConflicts(copies)
				w.rounds(long)
				v.survives("its status was copied")
			})
		})
	}
}

// What a person can do about it: give X up, or take the copies back.
func TestCopiedStatusHeals(t *testing.T) {
	t.Parallel()
	for name, heal := range map[string]func(v victim, copies map[string]types.NamespacedName){
		"X is deleted": func(v victim, _ map[string]types.NamespacedName) { v.o.at.delete(v.x) },
		"the statuses are cleared": func(v victim, copies map[string]types.NamespacedName) {
			for _, y := range copies {
				v.o.at.setStatus(y, v1alpha1.ProxyStatus{})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, func(_ *testing.T, w *world) {
				v := newVictim(w, "victim")
				copies := v.copies()
				v.overwrite(copies)
				w.rounds(2)
				heal(v, copies)
				well := maps.Clone(copies)
				delete(well, "a Proxy that conflicts")
				keys := slices.Collect(maps.Values(well))
				w.until("the copies serve again", func() bool { return v.o.serves(keys...) })
				w.rounds(long)
				for what, y := range well {
					if own := w.of(v.o.owner, v.o.at.uid(y)); len(own) != 1 || !v.o.serves(y) {
						w.t.Errorf("of %s there is %v:\n%s", what, own, w.describe())
					}
				}
				if !v.o.at.gone(v.x) {
					v.survives("the copies were taken back")
				}
			})
		})
	}
}

// Each of two records names the other's instance. Both Proxies say so, nothing is lost, and deleting both leaves nothing.
func TestExchangedStatuses(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		v := newVictim(w, "victim")
		at := v.o.at
		y := at.proxy("team", "copy", inZone("zone-b"))
		w.until("Y serves", func() bool { return v.o.serves(y) })
		before := w.of(v.o.owner)
		at.setStatus(v.x, at.get(y).Status)
		at.setStatus(y, v.status)
		w.rounds(long)
		w.untouched(before, "two statuses were exchanged")
		if !at.conflicts(v.x) || !at.conflicts(y) {
			w.t.Errorf("both have to conflict:\n%s", w.describe())
		}
		at.delete(v.x, y)
		w.until("both are gone", func() bool { return at.gone(v.x, y) })
		w.nothing(w.of(v.o.owner), "an instance")
	})
}

// A record that is still young may stand for a creation on its way: the copy's own absence is not proven at once, and its
// Proxy is released only when it is.
func TestCopiedStatusOfACreationUnderWay(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		o := w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})
		x, y := o.at.proxy("team", "victim"), o.at.proxy("team", "copy", inZone("zone-b"))
		o.pass(x)
		o.at.setStatus(y, o.at.get(x).Status)
		o.at.edit(y, func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
		w.clock.Step(10 * time.Second) // X's instance can be seen by now, a creation of Y could still be on its way
		o.pass(y)
		o.at.delete(y)
		o.pass(y)
		if o.at.gone(y) {
			w.t.Error("Y was released although a creation sent under its record could still come about")
		}
		w.until("X serves and Y is gone", func() bool { return o.serves(x) && o.at.gone(y) })
		before := w.of(o.owner, o.at.uid(x))
		w.rounds(long)
		w.untouched(before, "the copy was deleted")
	})
}
