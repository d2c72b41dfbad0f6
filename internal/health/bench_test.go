package health

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

type noProbe struct{ count atomic.Int64 }

func (p *noProbe) Probe(context.Context, Target) Result {
	p.count.Add(1)
	return good(50 * time.Millisecond)
}

// BenchmarkDueProbe measures the engine's work per due probe with a probe that does nothing, and what an idle target
// occupies beside its snapshot. It is for profiles; the figures of make bench come from hack/bench/probes, where the sizes
// take turns and the loop, its timer and the garbage collector count as well.
func BenchmarkDueProbe(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			store := fleet.NewStore()
			for i := range n {
				store.Apply(proxy(fmt.Sprintf("p%d", i), reported(fleet.Healthy)))
			}
			prober := &noProbe{}
			e, err := New(Options{Store: store, Prober: prober, Clock: clock, Rand: rand.New(rand.NewPCG(1, 2))})
			if err != nil {
				b.Fatal(err)
			}
			w := store.Watch()
			keys := w.Take()
			before := heapInUse()
			e.takeIn(keys, true)
			e.takeIn(w.Take(), false)
			after := heapInUse()
			// One batch at a time, of about as many as are due within a hundredth of a second for 10,000 targets.
			step := 10 * time.Second * 8 / time.Duration(n)
			b.ResetTimer()
			for prober.count.Load() < int64(b.N) {
				clock.Step(step)
				e.look(b.Context())
				e.jobs.Wait()
			}
			b.StopTimer()
			b.ReportMetric(float64(after-before)/float64(n), "B/target")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
