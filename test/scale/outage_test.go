package scale

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// onTheWay is how many Proxies are being created, and how many deleted, when an outage begins.
	onTheWay = 20
	// outage is how long it lasts.
	outage = 10 * time.Minute
)

// unrest is a fleet with something going on at the moment when something breaks.
type unrest struct {
	steady   map[string]string // the identities of the instances that nobody touches
	dying    []types.NamespacedName
	creating []types.NamespacedName
	deleting []types.NamespacedName
	start    time.Time
}

// unsettle makes a fleet of which most is Ready, some Proxies are being created and some deleted. fault is applied when the
// first of their calls are under way.
func (w *world) unsettle(breakDown func()) *unrest {
	w.t.Helper()
	w.grow(fleetSize + onTheWay)
	w.neverTwo()
	u := &unrest{steady: w.identities(), start: time.Now()}
	for i := range onTheWay {
		doomed := nth(fleetSize + i)
		delete(u.steady, w.get(doomed).Status.ProviderID)
		w.delete(doomed)
		u.deleting = append(u.deleting, doomed)
		u.creating = append(u.creating, w.add(fleetSize+onTheWay+i))
	}
	<-time.After(150 * time.Millisecond) // workers bound the calls, so some are made, some under way and some not
	breakDown()
	for i := range 5 {
		u.dying = append(u.dying, nth(i*7))
	}
	return u
}

// converged: everything is as the users want it.
func (u *unrest) converged(w *world) bool {
	for _, key := range u.deleting {
		if w.get(key) != nil {
			return false
		}
	}
	return w.count(ready) == fleetSize+onTheWay
}

// untouched checks that the instances that nobody touched are the same ones.
func (u *unrest) untouched(w *world) {
	w.t.Helper()
	after := w.identities()
	for id, identity := range u.steady {
		if after[id] != identity {
			w.t.Errorf("%s is gone or another instance than before", id)
		}
	}
	if n := len(after); n != fleetSize+onTheWay {
		w.t.Errorf("%d instances exist for %d Proxies", n, fleetSize+onTheWay)
	}
	// The backend counts its instances, so the last identity tells how many there have ever been.
	last := 0
	for _, identity := range after {
		n, err := strconv.Atoi(identity)
		w.must(err)
		last = max(last, n)
	}
	if last != fleetSize+2*onTheWay {
		w.t.Errorf("%d instances were made for %d Proxies: some were created twice", last, fleetSize+2*onTheWay)
	}
}

// TestBackendOutage has a whole backend down for ten minutes.
func TestBackendOutage(t *testing.T) {
	t.Parallel()
	unavailable := provider.Wrap(provider.ErrTransient, "call", entry, "", errors.New("503 service unavailable"))
	for name, down := range map[string]func(provider.Ref) fault{
		"calls fail after a second": func(provider.Ref) fault { return fault{err: unavailable, takes: time.Second} },
		"calls hang, and half of them have taken effect": func(ref provider.Ref) fault {
			even := ref.UID != "" && ref.UID[len(ref.UID)-1]%2 == 0
			return fault{hangs: true, lost: even}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, setting{}, func(_ *testing.T, w *world) { backendOutage(w, down) })
		})
	}
}

func backendOutage(w *world, down func(provider.Ref) fault) {
	u := w.unsettle(func() {
		w.cloud.breakBy(func(op string, ref provider.Ref, _ provider.CreateRequest) fault {
			if op == opPlan {
				return fault{}
			}
			return down(ref)
		})
	})
	w.pass(3 * time.Minute)
	for _, key := range u.dying {
		w.prober.cut(key, true)
	}
	cut := time.Now()
	told := w.until(6*time.Minute, "the verdicts about dead traffic are in the status", func() bool { return w.allUnhealthy(u.dying) })
	withheld := time.Since(cut)
	w.pass(outage - time.Since(u.start))
	during := w.cloud.since(u.start)
	peakDown := w.cloud.resetPeak()
	for _, key := range u.dying {
		w.prober.cut(key, false)
	}
	w.cloud.breakBy(nil)
	mended := time.Now()
	took := w.until(15*time.Minute, "everything is as wanted", func() bool { return u.converged(w) })
	w.pass(2 * time.Minute)

	after := w.cloud.since(mended)
	peakUp := w.cloud.resetPeak()
	w.t.Logf("during: %d calls (at most %d in one second, %d in flight), dead traffic in the status after %s; after: converged in %s, at most %d calls in one second, %d in flight; per op %v",
		len(during), busiest(during, time.Second), peakDown, told, took, busiest(after, time.Second), peakUp, perOp(w.cloud.since(u.start)))
	u.untouched(w)
	// Three probes that fail, an interval apart (give or take a tenth), the last of which begins within the third interval
	// after the cut; then a pass, which asks the backend in vain before it writes.
	if bound := 3*33*time.Second + 2*callTimeout; withheld > bound {
		w.t.Errorf("dead traffic was told after %s, want at most %s", withheld, bound)
	}
	if most := busiest(after, time.Second); most > maxCallsPerSecond {
		w.t.Errorf("%d calls in one second after the outage", most)
	}
	if peakDown > places || peakUp > places {
		w.t.Errorf("%d calls in flight during the outage and %d after it, at most %d may be", peakDown, peakUp, places)
	}
}

const (
	// places is how many calls may be in flight to one target.
	places = 4
	// maxCallsPerSecond is what that allows of calls that take a tenth of a second each, and the lists.
	maxCallsPerSecond = places*10 + places + 2
)

// allUnhealthy: the status of each says so.
func (w *world) allUnhealthy(keys []types.NamespacedName) bool {
	for _, key := range keys {
		if c := healthy(w.get(key)); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDialFailed {
			return false
		}
	}
	return true
}

func perOp(calls []call) map[string]string {
	counts, failures := map[string]int{}, map[string]int{}
	for _, c := range calls {
		counts[c.op]++
		if c.err != nil {
			failures[c.op]++
		}
	}
	text := map[string]string{}
	for op, n := range counts {
		text[op] = fmt.Sprintf("%d, %d failed", n, failures[op])
	}
	return text
}
