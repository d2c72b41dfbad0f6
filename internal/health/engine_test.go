package health

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func (r *rig) apply(p *fleet.Proxy) {
	r.store.Apply(p)
	synctest.Wait()
}

func TestNewProxyIsProbedAtOnce(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a", func(p *fleet.Proxy) { p.Endpoint.Host = "" }))
		r.idle()
		r.apply(proxy("a"))
		c := r.take()
		if c.target.Key != keyOf("a") || !c.target.Due.Equal(r.clock.Now()) {
			t.Errorf("target %+v", c.target)
		}
		r.expect()
		r.end(c, good(40*time.Millisecond))
		// The store had the verdict when the transition was told.
		r.expect("a Healthy ProbeSucceeded")
		if v := r.store.Get(keyOf("a")).Verdict; v.Latency != 40*time.Millisecond || !v.At.Equal(r.clock.Now()) {
			t.Errorf("verdict %+v", v)
		}
		r.pass(8 * time.Second)
		r.idle()
		r.pass(4 * time.Second)
		r.end(r.take(), good(41*time.Millisecond))
		r.expect()
	})
}

func TestThresholds(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a", func(p *fleet.Proxy) { p.Probe.SuccessThreshold = 2 }))
		next := func(res Result) {
			r.end(r.take(), res)
			r.pass(45 * time.Second)
		}
		for range 2 {
			next(bad(v1alpha1.ReasonDialFailed))
		}
		if h := r.health("a"); h != fleet.HealthUnknown {
			t.Errorf("health %v below both thresholds", h)
		}
		next(good(0))
		r.expect()
		next(good(0))
		r.expect("a Healthy ProbeSucceeded")
		for range 2 {
			next(bad(v1alpha1.ReasonTimeout))
		}
		r.expect()
		next(bad(v1alpha1.ReasonDialFailed))
		r.expect("a Unhealthy DialFailed")
		next(bad(v1alpha1.ReasonDialFailed))
		next(bad(v1alpha1.ReasonTimeout))
		r.expect("a Unhealthy Timeout")
		next(good(0))
		r.expect()
		next(good(0))
		r.expect("a Healthy ProbeSucceeded")
	})
}

func TestSubjectChangeDropsLateResult(t *testing.T) {
	changes := map[string]func(*fleet.Proxy){
		"replaced":       attempt(2),
		"re-pointed":     func(p *fleet.Proxy) { p.Endpoint.Host = "other.test" },
		"re-created":     func(p *fleet.Proxy) { p.UID = "other" },
		"re-credentials": func(p *fleet.Proxy) { p.Credentials = &provider.Credentials{Revision: "2"} },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			underTest(t, nil, func(r *rig) {
				r.start()
				r.apply(proxy("a"))
				r.end(r.take(), good(0))
				r.expect("a Healthy ProbeSucceeded")
				r.pass(12 * time.Second)
				late := r.take()
				r.apply(proxy("a", change, reported(fleet.Healthy)))
				// The status still shows the verdict on the old subject: not to be believed, and to be written over.
				r.expect("a Unknown ")
				if h := r.health("a"); h != fleet.HealthUnknown {
					t.Errorf("health %v", h)
				}
				current := r.take()
				series := len(r.series)
				r.end(late, good(0))
				r.expect()
				if h := r.health("a"); h != fleet.HealthUnknown || len(r.series) != series {
					t.Errorf("a late result counted: health %v, series %q", h, r.series)
				}
				r.end(current, good(0))
				r.expect("a Healthy ProbeSucceeded")
			})
		})
	}
}

// The store drops the verdict when the subject changes, also when it changes back before the engine looks.
func TestSubjectThereAndBack(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a"))
		r.end(r.take(), good(0))
		r.store.Apply(proxy("a", attempt(2), func(p *fleet.Proxy) { p.Endpoint.Host = "other.test" }))
		r.store.Apply(proxy("a"))
		synctest.Wait()
		// The engine may have looked in between, and then probes the other subject too: that counts for nothing.
		var current *call
		for _, c := range r.takeAll() {
			if c.target.Endpoint.Host == "other.test" {
				r.end(c, good(0))
			} else {
				current = c
			}
		}
		if h := r.health("a"); h != fleet.HealthUnknown {
			t.Errorf("health %v", h)
		}
		r.end(current, good(0))
		if h := r.health("a"); h != fleet.Healthy {
			t.Errorf("health %v", h)
		}
	})
}

func TestGoneProxyLeavesNothing(t *testing.T) {
	for name, gone := range map[string]func(*rig){
		"deleted":     func(r *rig) { r.store.Remove(keyOf("a"), "uid-a") },
		"deleting":    func(r *rig) { r.store.Apply(proxy("a", func(p *fleet.Proxy) { p.Deleting = true })) },
		"no address":  func(r *rig) { r.store.Apply(proxy("a", func(p *fleet.Proxy) { p.Endpoint.Host = "" })) },
		"no password": func(r *rig) { r.store.Apply(proxy("a", func(p *fleet.Proxy) { p.CredentialsMissing = true })) },
	} {
		t.Run(name, func(t *testing.T) {
			underTest(t, nil, func(r *rig) {
				r.start()
				r.apply(proxy("a"))
				r.end(r.take(), good(0))
				r.pass(12 * time.Second)
				late := r.take()
				gone(r)
				synctest.Wait()
				r.heard()
				r.end(late, bad(v1alpha1.ReasonTimeout))
				r.pass(time.Minute)
				r.idle()
				r.expect()
				if want := []string{"observe ns/a true ProbeSucceeded", "forget ns/a"}; !slices.Equal(r.series, want) {
					t.Errorf("series %q, want %q", r.series, want)
				}
				if v, ok := r.engine.Verdict(keyOf("a")); !ok || v.Reason != v1alpha1.ReasonNotProbed {
					t.Errorf("verdict %+v, %v", v, ok)
				}
				if n := len(r.engine.states); n != 0 {
					t.Errorf("%d states left", n)
				}
			})
		})
	}
}

func TestSeededVerdict(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.store.Apply(proxy("a", reported(fleet.Healthy)))
		if _, ok := r.engine.Verdict(keyOf("a")); ok {
			t.Error("a verdict before the start")
		}
		r.start()
		if h := r.health("a"); h != fleet.Healthy {
			t.Errorf("health %v", h)
		}
		r.idle() // the first probe is spread over the interval
		r.pass(10 * time.Second)
		r.end(r.take(), good(50*time.Millisecond))
		r.pass(20 * time.Second)
		r.expect()
		if h := r.health("a"); h != fleet.Healthy {
			t.Errorf("health %v after it was confirmed", h)
		}
	})
}

func TestSeededVerdictLapses(t *testing.T) {
	for _, seed := range []fleet.Health{fleet.Healthy, fleet.Unhealthy} {
		underTest(t, nil, func(r *rig) {
			r.store.Apply(proxy("a", reported(seed)))
			r.start()
			r.pass(10 * time.Second)
			hanging := r.take()
			r.pass(19900 * time.Millisecond)
			if h := r.health("a"); h != seed {
				t.Errorf("health %v too early", h)
			}
			r.pass(200 * time.Millisecond)
			r.expect("a Unknown NotProbed")
			r.end(hanging, good(0))
			r.expect("a Healthy ProbeSucceeded")
		})
	}
}

// What the status says about another endpoint (edited while nobody watched) is no verdict about this one: it is probed at
// once instead.
func TestAReportAboutAnotherSubjectIsNotSeeded(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.store.Apply(proxy("a", reported(fleet.Healthy), func(p *fleet.Proxy) { p.Reported.Subject.Endpoint.Port++ }))
		r.start()
		if h := r.health("a"); h != fleet.HealthUnknown {
			t.Errorf("health %v", h)
		}
		r.end(r.take(), good(0))
		if h := r.health("a"); h != fleet.Healthy {
			t.Errorf("health %v after the probe", h)
		}
	})
}

// Real transitions need a full run after a restart, too.
func TestSeededVerdictNeedsAFullRun(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.store.Apply(proxy("a", reported(fleet.Healthy), func(p *fleet.Proxy) { p.Probe.FailureThreshold = 2 }))
		r.start()
		r.pass(10 * time.Second)
		r.end(r.take(), bad(v1alpha1.ReasonTimeout))
		r.expect()
		r.pass(9900 * time.Millisecond)
		r.end(r.take(), bad(v1alpha1.ReasonTimeout))
		r.expect("a Unhealthy Timeout")
	})
}

func TestKeysAfterTheStartAreNotSeeded(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a", reported(fleet.Healthy)))
		r.expect("a Unknown ")
		r.end(r.take(), good(0))
		r.expect("a Healthy ProbeSucceeded")
	})
}

func TestIntervalEditCountsAtOnce(t *testing.T) {
	hourly := func(p *fleet.Proxy) { p.Probe.Interval = time.Hour }
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a", hourly))
		r.end(r.take(), good(0))
		r.pass(12 * time.Second)
		r.idle()
		r.apply(proxy("a"))
		r.end(r.take(), good(0))
		r.apply(proxy("a", hourly))
		r.pass(time.Minute)
		r.idle()
	})
}

func TestNewProbeURLIsTriedAtOnce(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a"))
		r.end(r.take(), good(0))
		r.pass(12 * time.Second)
		late := r.take()
		r.heard()
		r.apply(proxy("a", func(p *fleet.Proxy) { p.Probe.URL, p.Probe.FailureThreshold = "https://other.test/", 1 }))
		current := r.take()
		if h := r.health("a"); h != fleet.Healthy {
			t.Errorf("health %v", h)
		}
		r.end(late, bad(v1alpha1.ReasonTimeout))
		r.expect()
		r.end(current, bad(v1alpha1.ReasonTLSFailed))
		r.expect("a Unhealthy TLSFailed")
	})
}

func TestInconclusiveProbeChangesNothing(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.start()
		r.apply(proxy("a", func(p *fleet.Proxy) { p.Probe.FailureThreshold = 1 }))
		r.end(r.take(), Result{Reason: v1alpha1.ReasonDialFailed, Inconclusive: true})
		r.expect()
		if len(r.series) != 0 {
			t.Errorf("series %q", r.series)
		}
		r.pass(12 * time.Second)
		r.take()
	})
}

func TestResultsAfterTheEndDoNotCount(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		release := make(chan struct{})
		r.auto = func(Target) Result { <-release; return good(0) }
		r.start()
		r.apply(proxy("a"))
		r.cancel()
		synctest.Wait()
		if len(r.ended) != 0 {
			t.Error("Start returned with a probe under way")
		}
		close(release)
		r.stop()
		r.expect()
		if h := r.store.Get(keyOf("a")).Verdict.Health; h != fleet.HealthUnknown {
			t.Errorf("health %v", h)
		}
		if err := r.engine.Start(t.Context()); err == nil {
			t.Error("started twice")
		}
	})
}

func TestFailingTargetsBackOff(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.auto = func(Target) Result { return bad(v1alpha1.ReasonTimeout) }
		r.start()
		r.apply(proxy("a"))
		r.pass(30 * time.Minute)
		// 0 10 20 40 80 and then every 40 s.
		if n := len(r.probes); n < 44 || n > 54 {
			t.Errorf("%d probes in 30 minutes", n)
		}
		r.expect("a Unhealthy Timeout")
		before := len(r.probes)
		r.auto = func(Target) Result { return good(0) }
		r.pass(42 * time.Second)
		r.expect("a Healthy ProbeSucceeded")
		if len(r.probes) == before {
			t.Error("no probe within four intervals")
		}
	})
}

func TestOverloadDropsNothing(t *testing.T) {
	underTest(t, func(o *Options) { o.Workers = 2; o.SlowWorkers = 4 }, func(r *rig) {
		names := strings.Split("abcdefghijklmnopqrst", "")
		for _, name := range names {
			r.store.Apply(proxy(name))
		}
		r.start()
		if n := len(r.pending); n != 2 {
			t.Fatalf("%d probes at once, want 2", n)
		}
		seen := map[string]bool{}
		for range 100 {
			r.mu.Lock()
			calls := r.pending
			r.pending = nil
			r.mu.Unlock()
			for _, c := range calls {
				seen[c.target.Key.Name] = true
				r.end(c, good(0))
			}
		}
		if len(seen) != len(names) {
			t.Errorf("%d of %d were probed", len(seen), len(names))
		}
		if got := r.engine.lanes.inUse; got != [laneCount]int{} {
			t.Errorf("places in use %v", got)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{Workers: -1}); err == nil || !strings.Contains(err.Error(), "Store") ||
		!strings.Contains(err.Error(), "Prober") || !strings.Contains(err.Error(), "Workers is -1") {
		t.Errorf("got %v", err)
	}
}
