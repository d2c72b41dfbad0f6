package scale

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// TestAPIServerDown has the API server away for ten minutes: caches answer with what they have, watches are silent, writes
// and live reads fail.
func TestAPIServerDown(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]linkState{"connections are refused": linkRefused, "requests hang": linkHangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, setting{}, func(_ *testing.T, w *world) { apiServerDown(w, how) })
		})
	}
}

func apiServerDown(w *world, how linkState) {
	u := w.unsettle(func() { w.link.set(how) })
	down := time.Now()
	w.pass(2 * time.Minute)
	for _, key := range u.dying {
		w.prober.cut(key, true)
	}
	probes := w.prober.count()
	w.pass(outage - 2*time.Minute)

	probed := w.prober.count() - probes
	withheld := 0
	for _, key := range u.dying {
		if p := w.store.Get(key); p.Withheld() != "" {
			withheld++
		}
	}
	acts := w.cloud.since(down, opCreate, opDelete)
	failedWrites := w.link.failures()
	w.link.set(linkUp)
	up := time.Now()
	told := w.until(15*time.Minute, "the verdicts about dead traffic are in the status", func() bool { return w.allUnhealthy(u.dying) })
	for _, key := range u.dying {
		w.prober.cut(key, false)
	}
	took := told + w.until(30*time.Minute, "everything is as wanted", func() bool { return u.converged(w) })
	w.pass(2 * time.Minute)

	writes := w.link.since(up)
	w.t.Logf("during: %d probes, %d of %d with dead traffic withheld, %d creations and deletions, %d writes failed; after: verdicts told in %s, converged in %s, %d writes, at most %d in one second",
		probed, withheld, len(u.dying), len(acts), failedWrites, told, took, len(writes), busiestSecond(writes))
	u.untouched(w)
	w.intended(u)
	if probed < fleetSize*12 { // 16 intervals, and a margin
		w.t.Errorf("%d probes in 8 min: the engine did not go on", probed)
	}
	if withheld != len(u.dying) {
		w.t.Errorf("%d of %d Proxies with dead traffic are withheld from crawlers", withheld, len(u.dying))
	}
	// controller-runtime doubles the wait after each error, so the next try comes at the latest when the outage has lasted
	// that long again.
	if told > outage {
		w.t.Errorf("verdicts from the outage were told %s after it", told)
	}
	if most := busiestSecond(writes); most > workers*int(time.Second/roundTrip) {
		w.t.Errorf("%d writes in one second", most)
	}
}

// intended checks that every creation was on record before it was sent, and every deletion of a living Proxy's instance.
func (w *world) intended(u *unrest) {
	w.t.Helper()
	records := map[string][]write{}
	for _, one := range w.link.since(time.Time{}) {
		records[string(one.after.UID)] = append(records[string(one.after.UID)], one)
	}
	for _, c := range w.cloud.since(u.start, opCreate, opDelete) {
		found := false
		for _, r := range records[c.ref.UID] {
			if r.at.After(c.began) {
				break
			}
			found = found || w.asks(r.after, c)
		}
		// That the Proxy is to be deleted is on record by the user's own write, and never goes away again.
		byUser := c.op == opDelete && w.wasDeleted(c.ref.UID)
		if !found && !byUser {
			w.t.Errorf("%s of attempt %d of %s was on no record", c.op, c.ref.Attempt, c.ref.UID)
		}
	}
}

// asks reports whether the record p is one under which c may be sent.
func (w *world) asks(p *v1alpha1.Proxy, c call) bool {
	rec := p.Status.Instance
	if rec == nil || rec.Attempt != c.ref.Attempt {
		return false
	}
	if c.op == opCreate {
		return p.Status.ProviderID == c.ref.ID && rec.RequestedAt.Time.Equal(c.ref.RequestedAt)
	}
	return p.Status.DrainingSince != nil || !p.DeletionTimestamp.IsZero()
}

func (w *world) wasDeleted(uid string) bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, last := range w.server.buried[kindProxy] {
		if string(last.GetUID()) == uid {
			return true
		}
	}
	return false
}
