package scale

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	rightType = "e2-small"
	wrongType = "e2-smal"
)

func machineType(name string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{MachineType: name} }
}

// refuseType makes op fail for good wherever the machine type is the wrong one.
func (w *world) refuseType(op string) {
	w.cloud.breakBy(func(at string, ref provider.Ref, req provider.CreateRequest) fault {
		if at != op || req.Placement.MachineType != wrongType {
			return fault{}
		}
		return fault{err: w.cloud.wrap(provider.ErrPermanent, op, ref, errors.New(`machine type "e2-smal" does not exist`))}
	})
}

// editAll rolls a change out to every Proxy at once.
func (w *world) editAll(change func(*v1alpha1.Proxy)) {
	for _, p := range w.all() {
		w.edit(keyOf(p.Name), change)
	}
}

// TestTypoRefusedByPlan rolls out a machine type that the provider knows not to exist: nothing may happen to anybody.
func TestTypoRefusedByPlan(t *testing.T) {
	t.Parallel()
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.grow(fleetSize, machineType(rightType))
		w.refuseType(opPlan)
		gone, before := w.gauge(away), w.identities()
		leastOffered := fleetSize
		w.always(func() { leastOffered = min(leastOffered, w.offered()) })
		start := time.Now()
		w.editAll(machineType(wrongType))
		w.pass(10 * time.Minute)

		blocked := w.count(func(p *v1alpha1.Proxy) bool {
			c := provisioned(p)
			return c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonUpdateBlocked && strings.Contains(c.Message, "does not exist")
		})
		writes := w.link.since(start)
		most := 0
		for _, mine := range byProxy(writes) {
			most = max(most, len(mine))
		}
		acts := w.cloud.since(start, opCreate, opDelete)
		t.Logf("in 10 min: %d of %d blocked, %d away, at least %d offered; at most %d writes for one Proxy, %d creations and deletions, %d reads of single instances",
			blocked, fleetSize, gone.max(), leastOffered, most, len(acts), len(w.cloud.since(start, opGet)))
		if blocked != fleetSize {
			t.Errorf("the refusal is not on all: %s", w.summary())
		}
		if gone.max() != 0 || leastOffered != fleetSize || len(acts) != 0 {
			t.Errorf("a change that can never be made cost something")
		}
		if most > 2 {
			t.Errorf("%d writes for one Proxy", most)
		}

		w.editAll(machineType(rightType))
		took := w.until(10*time.Minute, "the refusal is gone", func() bool { return w.count(created) == fleetSize })
		after := w.identities()
		for id, identity := range before {
			if after[id] != identity {
				t.Fatalf("%s is another instance than before", id)
			}
		}
		t.Logf("put right: all serve without a complaint after %s", took)
	})
}

// created: the instance runs as the spec wants it.
func created(p *v1alpha1.Proxy) bool {
	return provisioned(p).Reason == v1alpha1.ReasonCreated && p.Status.ObservedGeneration == p.Generation
}

// TestTypoFailingAtCreation rolls out a machine type of which only the creation finds out: a tenth is lost, and there it
// stops. A replacement that failed for good keeps its place on purpose (docs/guarantees.md).
func TestTypoFailingAtCreation(t *testing.T) {
	t.Parallel()
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.grow(fleetSize, machineType(rightType))
		w.refuseType(opCreate)
		limit := tenth(fleetSize)
		gone := w.gauge(away)
		w.neverTwo()
		leastOffered := fleetSize
		w.always(func() { leastOffered = min(leastOffered, w.offered()) })
		start := time.Now()
		w.editAll(machineType(wrongType))
		w.until(10*time.Minute, "the first tenth has failed", func() bool { return w.count(failed) == limit })
		w.pass(5 * time.Second)

		latched := time.Now()
		w.pass(8 * time.Minute)
		silent := w.cloud.since(latched, opCreate, opGet, opDelete)
		w.pass(5 * time.Minute)
		creates := w.cloud.since(start, opCreate)
		t.Logf("in 13 min: at most %d of %d away, at least %d offered, %d failed; %d calls in 8 min while latched; %d creations in all, at most %d in one minute",
			gone.max(), fleetSize, leastOffered, w.count(failed), len(silent), len(creates), busiest(creates, time.Minute))
		if gone.max() > limit || leastOffered < fleetSize-limit {
			t.Errorf("more than %d instances were lost", limit)
		}
		if w.count(failed) != limit || w.count(waits) != fleetSize-limit {
			t.Errorf("the roll-out did not stop: %s", w.summary())
		}
		if len(silent) != 0 {
			t.Errorf("%d calls while the failure is latched, first %+v", len(silent), silent[0])
		}
		if len(creates) != 2*limit { // the first, and again after 10 min
			t.Errorf("%d creations of %d instances that cannot be", len(creates), limit)
		}

		w.editAll(machineType(rightType))
		took := w.until(10*time.Minute, "all are healed", func() bool { return w.count(ready) == fleetSize && w.count(created) == fleetSize })
		t.Logf("put right: all Ready after %s", took)
		if n := len(w.cloud.since(start, opDelete)); n != limit {
			t.Errorf("%d deletions, want those of the first tenth alone", n)
		}
	})
}

// failed: a person sees that it is over until something changes.
func failed(p *v1alpha1.Proxy) bool {
	c := provisioned(p)
	return p.Status.Phase == v1alpha1.PhaseFailed && c.Reason == v1alpha1.ReasonPermanentError && strings.Contains(c.Message, "does not exist")
}
