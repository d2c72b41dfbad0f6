package scale

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestBusyTargetServesEverybody has a target with many instances that take long to boot, each of which is asked for every
// ten seconds, and asks how long newcomers wait for their first call.
func TestBusyTargetServesEverybody(t *testing.T) {
	t.Parallel()
	const (
		booting, newcomers = 50, 5
		watched            = 2 * time.Minute
	)
	slow := providertest.BackendOptions{CreateDelay: 2 * time.Second, BootDelay: 12 * time.Minute, DeleteDelay: 5 * time.Second}
	simulate(t, setting{backend: slow, latency: 400 * time.Millisecond}, func(t *testing.T, w *world) {
		for i := range booting {
			w.add(i)
		}
		w.pass(5 * time.Minute)
		start := time.Now()
		isNew := map[types.UID]bool{}
		for i := range newcomers {
			isNew[w.get(w.add(booting+i)).UID] = true
		}
		w.pass(watched)
		var waits []time.Duration
		for uid, mine := range byUID(w.cloud.since(start, opCreate)) {
			if isNew[types.UID(uid)] {
				waits = append(waits, mine[0].began.Sub(start))
			}
		}
		perSecond := float64(len(w.cloud.since(start))) / watched.Seconds()
		// A call takes 400 ms and there are four places: the target could bear ten a second.
		t.Logf("%d booting: %.1f calls a second; newcomers waited %s (median) to %s for their first call",
			booting, perSecond, quantile(waits, 0.5), quantile(waits, 1))
		// VIOLATION: a pass that finds the target busy forgets how often it has looked before (queue counts in the same
		// memory as poll), so that the next look is followed by others after 1, 2, 4 … s. A target that is crowded once is
		// therefore asked more and more often and stays crowded.
		if most := float64(booting+newcomers) / 9; perSecond > most { // every ten seconds, jittered by a tenth
			t.Errorf("%.1f calls a second, want at most %.1f", perSecond, most)
		}
		// VIOLATION, by the same cause: nobody has a turn, whoever comes at the right moment gets the place.
		if len(waits) != newcomers || quantile(waits, 1) > 10*time.Second {
			t.Errorf("%d of %d newcomers got through, the last after %s, want all within 10s", len(waits), newcomers, quantile(waits, 1))
		}
	})
}
