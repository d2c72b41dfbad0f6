package scale

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// patience is spec.replaceUnhealthyAfter of the Proxies, leastPatience the least that is allowed.
const patience, leastPatience = 5 * time.Minute, time.Minute

func patient(p *v1alpha1.Proxy) { p.Spec.ReplaceUnhealthyAfter = v1alpha1.NewDuration(patience) }

// mixed has every tenth Proxy be as impatient as is allowed.
func mixed(p *v1alpha1.Proxy) {
	if patient(p); strings.HasSuffix(p.Name, "0") {
		p.Spec.ReplaceUnhealthyAfter = v1alpha1.NewDuration(leastPatience)
	}
}

// isHeld: a person sees that nothing can be known of the proxy's own health.
func isHeld(p *v1alpha1.Proxy) bool {
	c := healthy(p)
	return c.Status == metav1.ConditionUnknown && c.Reason == v1alpha1.ReasonSharedCauseSuspected
}

func isUnhealthy(p *v1alpha1.Proxy) bool { return healthy(p).Status == metav1.ConditionFalse }

// TestTargetOutageReplacesNothing has the site that the probes ask for silent for ten minutes, and the judge URL with it.
func TestTargetOutageReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		judge, restart bool
		n              int
	}{
		"with a judge url": {judge: true, n: fleetSize},
		"with a judge url, and the operator restarts": {judge: true, restart: true, n: flock},
		"without": {n: fleetSize},
		// Few enough for the first results after a start to come one by one.
		"without, and the operator restarts": {restart: true, n: 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, setting{judge: tc.judge}, func(_ *testing.T, w *world) { targetOutage(w, tc.n, tc.restart) })
		})
	}
}

func targetOutage(w *world, n int, restart bool) {
	w.grow(n, mixed)
	gone, before, offer, start := w.gauge(away), w.identities(), w.shelf(nil), time.Now()
	w.prober.silence(true)
	// What a new process takes over lapses unless confirmed in three intervals, and again in three: soon after the outage.
	w.pass(outage + 20*time.Second - 6*v1alpha1.DefaultProbeInterval)
	writes := 3 // held or Unhealthy, why it is not replaced, and well again
	if restart {
		w.restart(time.Second)
		w.pass(time.Second)
		offer.follow(w)
		writes += 2 // the why goes until the engine has made up its mind again
	}
	w.pass(time.Until(start.Add(outage)))
	held, unhealthy := w.count(isHeld), w.count(isUnhealthy)

	w.prober.silence(false)
	back := w.until(10*time.Minute, "all are offered and Ready by themselves", func() bool { return w.offered() == n && w.count(ready) == n })
	w.pass(2 * patience) // what was only put off would come now
	least, left := offer.fewest()
	most := 0
	for _, mine := range byProxy(w.link.since(start)) {
		most = max(most, len(mine))
	}
	w.t.Logf("at the end: %d held, %d Unhealthy of %d; all back %s later; at least %d offered all the time, left %v; at most %d writes for one Proxy, %d reads of single instances",
		held, unhealthy, n, back, least, left, most, len(w.cloud.since(start, opGet)))
	switch {
	case w.setting.judge && (held != n || least != n):
		w.t.Errorf("%d of %d verdicts are held, and at least %d were on offer: it is known that the fault is another's", held, n, least)
	case !w.setting.judge && (unhealthy != n || least != 0):
		w.t.Errorf("%d of %d are Unhealthy, and at least %d were on offer: nobody knows that the fault is another's", unhealthy, n, least)
	}
	w.sameAs(before)
	if acts := len(w.cloud.since(start, opCreate, opDelete)); acts != 0 || gone.max() != 0 {
		w.t.Errorf("%d creations and deletions, and %d were away, for somebody else's outage", acts, gone.max())
	}
	if most > writes {
		w.t.Errorf("%d writes for one Proxy, want at most %d", most, writes)
	}
}

// sameAs checks that the instances are those of before, but for the Proxies named.
func (w *world) sameAs(before map[string]string, but ...types.NamespacedName) {
	w.t.Helper()
	for _, key := range but {
		delete(before, w.get(key).Status.ProviderID)
	}
	after, lost := w.identities(), 0
	for id, identity := range before {
		if after[id] != identity {
			lost++
		}
	}
	if lost > 0 {
		w.t.Errorf("%d instances are gone or others than before", lost)
	}
}

// TestDeadProxiesAreReplacedOnce has some instances cease to forward at one moment, for good.
func TestDeadProxiesAreReplacedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dead, of int
		down     time.Duration // for how long the operator is away in the middle of the wait
	}{
		"seven, and the operator restarts":                    {7, flock, time.Second},
		"seven, and the operator is away when the time is up": {7, flock, patience},
		"nearly a third": {fleetSize * 3 / 10, fleetSize, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, setting{judge: true}, func(_ *testing.T, w *world) { deadProxies(w, tc.dead, tc.of, tc.down) })
		})
	}
}

func deadProxies(w *world, n, of int, down time.Duration) {
	w.grow(of, patient)
	before, offer, start := w.identities(), w.shelf(nil), time.Now()
	replacing := w.gauge(func(p *v1alpha1.Proxy) bool { return p.Status.ReplacingSince != nil })
	w.neverTwo()
	var dead []types.NamespacedName
	for i := range n {
		dead = append(dead, nth(i*(of/n)))
		w.prober.wear(dead[i])
	}
	w.until(2*time.Minute, "the dead ones are known", func() bool { return w.count(isUnhealthy) == n })
	limit, up := tenth(of), start
	if down > 0 {
		w.pass(patience / 2)
		w.restart(down)
		up = time.Now()
		w.pass(time.Second)
		offer.follow(w)
	}
	w.until(30*time.Minute, "all are Ready", func() bool { return w.count(ready) == of && w.offered() == of })
	took := time.Since(start)
	w.pass(2 * patience)

	earliest, late := w.replacedOnce(dead, start, up)
	least, left := offer.fewest()
	w.t.Logf("%d of %d dead: replaced %s after their condition at the earliest, and at most %s after both that wait and the operator's start, all Ready after %s; at most %d being replaced; at least %d offered, left %v",
		n, of, earliest, late, took, replacing.max(), least, left)
	w.sameAs(before, dead...)
	if acts := len(w.cloud.since(start, opCreate, opDelete)); acts != 2*n {
		w.t.Errorf("%d creations and deletions for %d dead ones", acts, n)
	}
	if replacing.max() > min(limit, n) {
		w.t.Errorf("%d were replaced at one time, at most %d may be", replacing.max(), limit)
	}
	if least != of-n {
		w.t.Errorf("at least %d were offered of %d that forward", least, of-n)
	}
	// A condition keeps whole seconds. A new process wants to see a full run of failures, and a pass may wait for its turn.
	if slack := 3*33*time.Second + 30*time.Second; earliest < patience-time.Second || n <= limit && late > slack {
		w.t.Errorf("replaced %s after they became Unhealthy and %s after they might be, want %s and at most %s", earliest, late, patience, slack)
	}
}

// replacedOnce checks that each of the dead has had one deletion and one creation. It returns how long after its
// condition became False the first deletion came, and how late the last one was, counted from when the Proxy's patience
// was over and the operator up.
func (w *world) replacedOnce(dead []types.NamespacedName, since, up time.Time) (earliest, late time.Duration) {
	w.t.Helper()
	deletes, creates, writes := byUID(w.cloud.since(since, opDelete)), byUID(w.cloud.since(since, opCreate)), byProxy(w.link.since(since))
	earliest = time.Hour
	for _, key := range dead {
		p := w.get(key)
		uid := string(p.UID)
		if p.Status.Instance.Attempt != 2 || len(deletes[uid]) != 1 || len(creates[uid]) != 1 {
			w.t.Errorf("%s has attempt %d after %d deletions and %d creations", key, p.Status.Instance.Attempt, len(deletes[uid]), len(creates[uid]))
			continue
		}
		for _, one := range writes[key] {
			if isUnhealthy(one.after) {
				began, due := deletes[uid][0].began, one.at.Add(patience)
				if due.Before(up) {
					due = up
				}
				earliest, late = min(earliest, began.Sub(one.at)), max(late, began.Sub(due))
				break
			}
		}
	}
	return earliest, late
}
