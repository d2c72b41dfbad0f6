package scale

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// dark is the zone that falls silent; half of the fleet is in it.
const dark = "dark"

// zones are all zones; requests spread over those that are not dark.
var zones = []string{dark, "north", "east", "south", "west"}

// bright returns the zone of the i-th Proxy outside of the dark one.
func bright(i int) string { return zones[1+i%(len(zones)-1)] }

// latencies are how long Proxies of the zones that answer take, from the user's request to Ready.
type latencies struct{ created, replaced []time.Duration }

// TestSilentZone has the calls to one zone never answered, while all Proxies in it ask for something: those of the other
// zones must not feel it.
func TestSilentZone(t *testing.T) {
	t.Parallel()
	s := setting{targetOf: zoneOf, backend: providertest.BackendOptions{Zones: zones}}
	var found [2]latencies
	for i := range found {
		simulate(t, s, func(_ *testing.T, w *world) { found[i] = besideDark(w, i == 1) })
	}
	for what, of := range map[string]func(latencies) []time.Duration{
		"created → Ready":          func(l latencies) []time.Duration { return l.created },
		"edited → replaced, Ready": func(l latencies) []time.Duration { return l.replaced },
	} {
		for _, q := range []float64{0.5, 0.99} {
			with, without := quantile(of(found[1]), q), quantile(of(found[0]), q)
			ratio := with.Seconds() / without.Seconds()
			t.Logf("%s, quantile %.2f: %s with all zones answering, %s beside a silent one (%.2f)", what, q, without, with, ratio)
			if without == 0 || ratio > 1.2 {
				t.Errorf("%s, quantile %.2f: %.2f times as long beside a silent zone", what, q, ratio)
			}
		}
	}
}

// besideDark measures the zones that answer while the dark one is silent, or not.
func besideDark(w *world, silent bool) (l latencies) {
	for i := range fleetSize {
		zone := dark
		if i >= fleetSize/2 {
			zone = bright(i)
		}
		w.add(i, toZone(zone))
	}
	w.until(15*time.Minute, "the fleet is up", func() bool { return w.count(ready) == fleetSize })
	w.pass(2 * time.Minute)
	start := time.Now()
	if silent {
		w.silenceDark()
	}
	w.pass(10 * time.Second)

	asked := time.Now()
	created, replaced := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for i := range fleetSize / 25 {
		created[w.add(fleetSize+fleetSize/2+i, toZone(bright(i)))] = true
	}
	for i := range fleetSize * 3 / 50 { // fewer than may be replaced at one time: nobody waits for a turn
		key := nth(fleetSize/2 + i)
		w.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](8080) })
		replaced[key] = true
	}
	w.pass(10 * time.Minute)
	for _, one := range w.link.since(asked) {
		if !ready(one.after) {
			continue
		}
		switch took := one.at.Sub(asked); {
		case created[one.key]:
			l.created = append(l.created, took)
			delete(created, one.key)
		case replaced[one.key] && one.after.Status.Instance.Attempt == 2:
			l.replaced = append(l.replaced, took)
			delete(replaced, one.key)
		}
	}
	if len(created)+len(replaced) > 0 {
		w.t.Errorf("after 10 min %d are not created and %d not replaced: %s", len(created), len(replaced), w.summary())
	}
	w.t.Logf("silent: %v; in flight at most %v; calls to the dark zone %d", silent, w.cloud.peak, w.callsTo(dark, start))
	return l
}

// silenceDark makes every call to the dark zone hang, and gives every Proxy in it a reason to make one.
func (w *world) silenceDark() {
	w.cloud.breakBy(func(op string, ref provider.Ref, _ provider.CreateRequest) fault {
		return fault{hangs: op != opPlan && op != opList && zoneOf(ref) == dark}
	})
	w.backend.SetUnread(dark, true) // a list answers, and says what it could not read
	for i := range fleetSize / 2 {
		if i%10 == 0 {
			w.delete(nth(i))
			w.add(fleetSize+i, toZone(dark))
			continue
		}
		w.edit(nth(i), func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](8080) })
	}
}

func (w *world) callsTo(target string, since time.Time) (n int) {
	for _, c := range w.cloud.since(since) {
		if c.target == target {
			n++
		}
	}
	return n
}
