package identity

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeBinary()
		os.Exit(code)
	}))
}

const (
	callTimeout = 30 * time.Second
	visibility  = 20 * time.Second
	skew        = 5 * time.Second
	// tick passes between two rounds.
	tick = 30 * time.Second
	// minAge is what the collectors ask of an orphan.
	minAge = 2 * time.Minute
	// long is a number of rounds in which everything that can happen does: windows pass, and whatever the collectors might
	// take becomes old and is seen in many sweeps.
	long = 8
	// patience is how many rounds something may take; it covers the longest latch that these tests meet.
	patience = 120
	// entry is the one provider entry of every operator.
	entry = "cloud"
)

// world is one backend with the operators that work on it.
type world struct {
	t         *testing.T
	clock     *clocktesting.FakeClock
	backend   *providertest.Backend
	operators []*operator
	uids      int
	// guarded are IDs under which nobody may send anything but reads.
	guarded map[string]string
}

// newEmptyWorld returns a world whose operators bring their backend.
func newEmptyWorld(t *testing.T) *world {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &world{t: t, clock: clk, guarded: map[string]string{}}
}

func newWorld(t *testing.T, kind providertest.Kind) *world {
	t.Helper()
	w := newEmptyWorld(t)
	w.backend = providertest.NewBackend(kind, w.clock, providertest.BackendOptions{
		CreateDelay: 5 * time.Second, BootDelay: 2 * time.Second, DeleteDelay: 5 * time.Second, Visibility: visibility,
	})
	w.backend.OnCall(w.guard)
	return w
}

// everyKind runs test on a backend of every kind.
func everyKind(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, kind := range providertest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, kind))
		})
	}
}

// guard fails the test as soon as anything is sent to where a stranger stands, whether or not the backend lets it pass.
func (w *world) guard(op string, ref provider.Ref) (none providertest.Fault) {
	switch op {
	case providertest.OpCreate, providertest.OpDelete, providertest.OpUpdate:
		if what, ok := w.guarded[ref.ID]; ok {
			w.t.Errorf("%s was sent to %s, where %s stands", op, ref.ID, what)
		}
	}
	return none
}

// place puts somebody else's instance under id by hand.
func (w *world) place(id, what string, labels map[string]string) {
	w.backend.Place(id, labels, 3128)
	w.guarded[id] = what
}

// takeAway removes a stranger's instance, as its owner does.
func (w *world) takeAway(id string) {
	delete(w.guarded, id)
	w.backend.Vanish(id)
}

// uid returns a UID as the API server gives them.
func (w *world) uid() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("6f1c3d1e-0000-4000-8000-%012d", w.uids))
}

// round lets every operator that is up do everything once, and then some time pass.
func (w *world) round() {
	w.t.Helper()
	for _, o := range w.operators {
		o.round()
	}
	w.checkOffers()
	w.clock.Step(tick)
}

func (w *world) rounds(n int) {
	w.t.Helper()
	for range n {
		w.round()
	}
}

// until runs rounds until done.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for range patience {
		if done() {
			return
		}
		w.round()
	}
	w.t.Fatalf("never %s; there is %v and\n%s", what, w.all(), w.describe())
}

// checkOffers makes sure that whoever is offered is offered at an instance of its own, and no address twice.
func (w *world) checkOffers() {
	w.t.Helper()
	standing := w.all()
	byAddress := map[string]string{}
	for _, o := range w.operators {
		for _, p := range o.offered() {
			who := o.name + " " + p.Key.String()
			if other, taken := byAddress[p.Endpoint.Address()]; taken {
				w.t.Errorf("%s and %s are offered at one address", who, other)
			}
			byAddress[p.Endpoint.Address()] = who
			m := standing[p.ProviderID].Marks
			if w.backend != nil && (m.UID != p.UID || m.Installation != o.owner.Installation || m.Cluster != o.owner.Cluster) {
				w.t.Errorf("%s is offered at %s, which is marked %+v", who, p.ProviderID, m)
			}
		}
	}
}

// all returns everything on the backend by its ID; a world without one, whose operators bring theirs, has nothing.
func (w *world) all() map[string]providertest.Leftover {
	if w.backend == nil {
		return nil
	}
	found := map[string]providertest.Leftover{}
	for _, l := range w.backend.Instances() {
		found[l.ID] = l
	}
	return found
}

// of returns what carries the marks of o, and of one of the UIDs if any are given.
func (w *world) of(o provider.Owner, uids ...types.UID) (found []providertest.Leftover) {
	for _, l := range w.backend.Instances() {
		if o.Owns(l.Marks) && (len(uids) == 0 || slices.Contains(uids, types.UID(l.Marks.UID))) {
			found = append(found, l)
		}
	}
	return found
}

// foreign returns what was put in place by hand and stands.
func (w *world) foreign() (found []providertest.Leftover) {
	for _, l := range w.backend.Instances() {
		if _, ok := w.guarded[l.ID]; ok {
			found = append(found, l)
		}
	}
	return found
}

// untouched checks that each of before stands as it stood then: the same identity, whole, and not being removed.
func (w *world) untouched(before []providertest.Leftover, after string) {
	w.t.Helper()
	if len(before) == 0 {
		w.t.Fatal("nothing stood there to begin with")
	}
	now := w.all()
	for _, was := range before {
		if !reflect.DeepEqual(now[was.ID], was) {
			w.t.Errorf("after %s: %s %s\nis\n%+v\nit was\n%+v", after, was.ID, w.guarded[was.ID], now[was.ID], was)
		}
	}
}

// nothing checks that found is empty.
func (w *world) nothing(found []providertest.Leftover, what string) {
	w.t.Helper()
	if len(found) > 0 {
		w.t.Errorf("%s is left: %v", what, found)
	}
}

func (w *world) describe() string {
	var b strings.Builder
	for _, o := range w.operators {
		for _, p := range o.proxies() {
			fmt.Fprintf(&b, "%s %s/%s: %s %s: %s\n", o.name, p.Namespace, p.Name, p.Status.Phase, reason(&p), message(&p))
		}
	}
	return b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
