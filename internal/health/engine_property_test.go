package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// exactly is what the engine must say of one proxy, worked out from the results that count alone.
type exactly struct {
	proxy  *fleet.Proxy
	health fleet.Health
	// run counts the latest results of one kind, above zero for successes, below for failures.
	run int
	// life grows whenever results of probes that began before must no longer count.
	life int
}

// play is one random sequence: snapshots come and go, probes end in any order and late.
type play struct {
	*rig
	model map[string]*exactly
	calls []*call
	lives map[*call]int
	told  map[string]string
}

// apply lets the store hold p, as the model takes it. What is being deleted stays so.
func (y *play) apply(p *fleet.Proxy) {
	e := y.model[p.Key.Name]
	if e != nil && e.proxy != nil && e.proxy.UID == p.UID && e.proxy.Deleting {
		p.Deleting = true
	}
	if e == nil {
		e = &exactly{}
		y.model[p.Key.Name] = e
	}
	switch {
	case e.proxy == nil || e.proxy.Subject() != p.Subject() || e.proxy.Deleting != p.Deleting:
		e.health, e.run = fleet.HealthUnknown, 0
		e.life++
	case !sameAim(e.proxy.Probe, p.Probe):
		e.run = 0
		e.life++
	}
	copied := *p
	e.proxy = &copied
	y.store.Apply(p)
	y.collect()
}

// collect takes in which probes have begun.
func (y *play) collect() {
	synctest.Wait()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, c := range y.pending {
		y.lives[c] = y.model[c.target.Key.Name].life
		y.calls = append(y.calls, c)
	}
	y.pending = nil
}

// end lets the i-th of the probes under way end with r.
func (y *play) end(i int, r Result) {
	c := y.calls[i]
	y.calls = append(y.calls[:i:i], y.calls[i+1:]...)
	e := y.model[c.target.Key.Name]
	if e.proxy != nil && y.lives[c] == e.life && !r.Inconclusive {
		switch {
		case r.OK && e.run < 0, !r.OK && e.run > 0:
			e.run = 0
		}
		if r.OK {
			if e.run++; e.run >= e.proxy.Probe.SuccessThreshold {
				e.health = fleet.Healthy
			}
		} else {
			if e.run--; -e.run >= e.proxy.Probe.FailureThreshold {
				e.health = fleet.Unhealthy
			}
		}
	}
	c.reply <- r
	y.collect()
}

func (y *play) agree(t *rapid.T) {
	// What those saw who looked only at what they were told of.
	for _, line := range y.heard() {
		var key, health string
		_, _ = fmt.Sscan(line, &key, &health)
		y.told[key] = health
	}
	for name, e := range y.model {
		v, ok := y.engine.Verdict(keyOf(name))
		if !ok {
			t.Fatal("no verdict")
		}
		p := y.store.Get(keyOf(name))
		if e.proxy == nil || e.proxy.Deleting {
			if v.Health != fleet.HealthUnknown || (v.Subject != fleet.Subject{}) {
				t.Fatalf("%s is not probed, the engine says %+v", name, v)
			}
			continue
		}
		if v.Health != e.health || v.Subject != e.proxy.Subject() {
			t.Fatalf("%s: the engine says %v about %+v, want %v about %+v", name, v.Health, v.Subject, e.health, e.proxy.Subject())
		}
		if p.Verdict.Health != e.health {
			t.Fatalf("%s: the store says %v, want %v", name, p.Verdict.Health, e.health)
		}
		if told := y.told[name]; e.health != fleet.HealthUnknown && told != healthName(e.health) {
			t.Fatalf("%s is %v, told last was %q", name, e.health, told)
		}
	}
}

// Whatever comes in whatever order: a verdict is that of the last full run of results about exactly what the snapshot
// describes, and every change of it is told.
func TestVerdictsAreExactOverAnySequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// rapid ends a failed sequence by a panic, which must not get lost in the bubble.
		var failed any
		underTest(t, nil, func(r *rig) {
			defer func() { failed = recover() }()
			y := &play{rig: r, model: map[string]*exactly{}, lives: map[*call]int{}, told: map[string]string{}}
			r.start()
			names := rapid.SampledFrom([]string{"a", "b", "c"})
			rt.Repeat(map[string]func(*rapid.T){
				"apply": func(t *rapid.T) {
					y.apply(proxy(names.Draw(t, "name"), func(p *fleet.Proxy) {
						p.Attempt = rapid.Int64Range(1, 2).Draw(t, "attempt")
						p.Endpoint.Port = int32(rapid.IntRange(1, 2).Draw(t, "port"))
						p.UID = rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid")
						p.Deleting = rapid.IntRange(0, 9).Draw(t, "deleting") == 0
						p.Probe.SuccessThreshold = rapid.IntRange(1, 3).Draw(t, "successes")
						p.Probe.FailureThreshold = rapid.IntRange(1, 3).Draw(t, "failures")
					}))
				},
				"edit": func(t *rapid.T) { // the common case: a little of what is there changes
					e := y.model[names.Draw(t, "name")]
					if e == nil || e.proxy == nil {
						t.Skip()
					}
					p := *e.proxy
					switch rapid.IntRange(0, 3).Draw(t, "what") {
					case 0:
						p.Cordoned = !p.Cordoned
					case 1:
						p.Probe.URL = rapid.SampledFrom([]string{"https://one.test/", "https://two.test/"}).Draw(t, "url")
					case 2:
						p.Probe.Interval = time.Duration(rapid.IntRange(1, 30).Draw(t, "interval")) * time.Second
					case 3:
						p.Probe.FailureThreshold = rapid.IntRange(1, 3).Draw(t, "failures")
					}
					y.apply(&p)
				},
				"remove": func(t *rapid.T) {
					n := names.Draw(t, "name")
					if e := y.model[n]; e != nil && e.proxy != nil {
						y.store.Remove(keyOf(n), e.proxy.UID)
						*e = exactly{life: e.life + 1}
						delete(y.told, n)
						y.collect()
					}
				},
				"end": func(t *rapid.T) {
					if len(y.calls) == 0 {
						t.Skip()
					}
					i := rapid.IntRange(0, len(y.calls)-1).Draw(t, "probe")
					res := good(50 * time.Millisecond)
					switch rapid.IntRange(0, 6).Draw(t, "result") {
					case 0, 1, 2:
						res = bad(v1alpha1.ReasonTimeout)
					case 3:
						res = Result{Inconclusive: true}
					}
					y.end(i, res)
				},
				"time": func(t *rapid.T) {
					for range rapid.IntRange(1, 200).Draw(t, "ticks") {
						r.clock.Step(200 * time.Millisecond)
						y.collect()
					}
				},
				"": y.agree,
			})
		})
		if failed != nil {
			panic(failed)
		}
	})
}
