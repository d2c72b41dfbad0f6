package identity

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// squat is a fleet of which every Proxy finds another stranger under its instance's name.
type squat struct {
	w *world
	o *operator
	// every is how many of the disguises one stands for: 1 for all of them.
	every int
	keys  []types.NamespacedName
	// well is a Proxy that nobody stands in the way of.
	well types.NamespacedName
	// strangers are as they were put in place.
	strangers []providertest.Leftover
}

// newSquat makes one Proxy for each disguise, or for every n-th, and one that nobody stands in the way of.
func newSquat(w *world, every int) *squat {
	w.t.Helper()
	s := &squat{w: w, every: every, o: w.operator(settings{name: "operator", owner: crawl, at: w.cluster()})}
	s.well = s.o.at.proxy("team", "well")
	for range len(underOurName(s.well, s.o.at.uid(s.well))) / every {
		s.keys = append(s.keys, s.o.at.proxy("team", "exit-"+string(w.uid()[33:])))
	}
	return s
}

// moveIn puts the strangers where the instances belong.
func (s *squat) moveIn() {
	s.w.t.Helper()
	for i, key := range s.keys {
		d := underOurName(key, s.o.at.uid(key))[i*s.every]
		s.w.place(s.o.at.planned(key, "zone-a"), d.name, d.labels)
	}
	s.strangers = s.w.foreign()
}

// stays checks that every stranger stands, that the Proxies in whose way they are say so, and that all else is well.
func (s *squat) stays(after string) {
	s.w.t.Helper()
	s.w.untouched(s.strangers, after)
	for _, key := range s.keys {
		if s.o.at.get(key) != nil && !s.o.at.conflicts(key) {
			s.w.t.Errorf("after %s: %s has to conflict with %s:\n%s", after, key, s.w.guarded[s.o.at.planned(key, "zone-a")], s.w.describe())
		}
	}
	if !s.o.serves(s.well) || len(s.o.collected) > 0 {
		s.w.t.Errorf("after %s: collected %v, or the others suffer:\n%s", after, s.o.collected, s.w.describe())
	}
}

// live does with the Proxies whatever users do, deletes them in the end, and sweeps on.
func (s *squat) live() {
	s.w.t.Helper()
	s.w.rounds(long)
	s.stays("their coming")
	for _, key := range s.keys {
		s.o.at.edit(key, toPort(8080), ask("now"))
	}
	s.w.rounds(long / 2)
	s.stays("the Proxies were to be replaced")
	s.o.start()
	s.w.rounds(2)
	s.stays("a restart")
	s.o.at.delete(s.keys[:len(s.keys)-1]...)
	s.o.at.lose(s.keys[len(s.keys)-1])
	s.w.until("the Proxies are gone", func() bool { return s.o.at.gone(s.keys...) })
	s.w.rounds(long)
	s.stays("the Proxies were deleted")
}

func TestSomebodyWasThereFirst(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		every := 1
		if w.backend.Kind() != providertest.KindGCP {
			every = 3 // marks are read alike on every kind
		}
		s := newSquat(w, every)
		s.moveIn()
		w.rounds(8)
		s.live()
	})
}

// Between two lists the observer does not know yet, so nothing may be done on what it remembers.
func TestSomebodyTookThePlaceOfOurs(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		s := newSquat(w, 3)
		w.until("the fleet serves", func() bool { return s.o.serves(append(s.keys, s.well)...) })
		w.rounds(4)
		for _, key := range s.keys {
			w.backend.Vanish(s.o.at.planned(key, "zone-a"))
		}
		s.moveIn()
		w.round()
		s.stays("their coming")
		s.live()
	})
}

// In the middle of a replacement the place is empty for a moment: the old instance is gone, the next attempt not sent yet.
func TestSomebodyCameDuringAReplacement(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		s := newSquat(w, 5)
		w.until("the fleet serves", func() bool { return s.o.serves(append(s.keys, s.well)...) })
		for _, key := range s.keys {
			s.o.at.edit(key, ask("now"))
			s.o.pass(key) // takes the address back and deletes
		}
		w.clock.Step(tick)
		if n := len(w.of(crawl)); n != 1 {
			w.t.Fatalf("%d instances stand, want the one of the Proxy that is not replaced", n)
		}
		s.moveIn()
		w.until("every Proxy conflicts", func() bool { return s.conflict() })
		s.live()
	})
}

// Once the strangers have left, every Proxy gets its instance, without anybody's doing.
func TestSomebodyLeaves(t *testing.T) {
	everyKind(t, func(_ *testing.T, w *world) {
		s := newSquat(w, 5)
		s.moveIn()
		w.until("every Proxy conflicts", func() bool { return s.conflict() })
		for _, key := range s.keys {
			w.takeAway(s.o.at.planned(key, "zone-a"))
		}
		w.until("every Proxy serves", func() bool { return s.o.serves(s.keys...) })
	})
}

func (s *squat) conflict() bool {
	for _, key := range s.keys {
		if !s.o.at.conflicts(key) {
			return false
		}
	}
	return true
}
