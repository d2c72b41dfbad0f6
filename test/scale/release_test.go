package scale

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// waitsFor: the Proxy has no instance and says so.
func waitsFor(reason, says string) func(*v1alpha1.Proxy) bool {
	return func(p *v1alpha1.Proxy) bool {
		c := provisioned(p)
		return c.Reason == reason && strings.Contains(c.Message, says) && p.Status.IP == ""
	}
}

// expectSpread checks that the first creations of a whole fleet came one after the other.
func (w *world) expectSpread(since time.Time) {
	w.t.Helper()
	var firsts []call
	for _, mine := range byUID(w.cloud.since(since, opCreate)) {
		firsts = append(firsts, mine[0])
	}
	first, last := firsts[0].began, firsts[0].began
	for _, c := range firsts {
		if c.began.Before(first) {
			first = c.began
		}
		if c.began.After(last) {
			last = c.began
		}
	}
	peak := w.cloud.resetPeak()
	most := busiest(w.cloud.since(since, opCreate), time.Second)
	w.t.Logf("%d creations over %s, at most %d in one second, at most %d calls in flight", len(firsts), last.Sub(first), most, peak)
	if last.Sub(first) < 10*time.Second || most > 110 {
		w.t.Errorf("%d creations in one second, all of them within %s", most, last.Sub(first))
	}
	if peak > places {
		w.t.Errorf("%d calls in flight", peak)
	}
}

// TestAnEntryThatIsAddedReleasesTheFleet has a thousand Proxies wait for a provider that nobody has configured.
func TestAnEntryThatIsAddedReleasesTheFleet(t *testing.T) {
	t.Parallel()
	s := prompt
	s.absent = true
	simulate(t, s, func(t *testing.T, w *world) {
		for i := range fleetSize {
			w.add(i)
		}
		w.pass(10 * time.Minute)
		if n := w.count(waitsFor(v1alpha1.ReasonProviderNotConfigured, "not configured")); n != fleetSize || len(w.cloud.since(time.Time{})) > 0 {
			t.Errorf("%d wait, %d calls: %s", n, len(w.cloud.since(time.Time{})), w.summary())
		}
		quiet := len(w.link.since(time.Now().Add(-9 * time.Minute)))
		if quiet > 0 {
			t.Errorf("%d writes while nothing happened", quiet)
		}
		w.cloud.resetPeak()
		added := time.Now()
		w.configure()
		w.releaser.Release(entry)
		w.observer.Nudge()
		took := w.until(5*time.Minute, "all are Ready", func() bool { return w.count(ready) == fleetSize })
		t.Logf("all Ready %s after the entry was added", took)
		w.expectSpread(added)
		if n := w.standing(); n != fleetSize {
			t.Errorf("%d instances", n)
		}
	})
}

// TestADeniedProviderIsLeftAlone has a thousand Proxies wait, for two hours, for a provider that refuses the operator.
func TestADeniedProviderIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, spared := range map[string]string{"wholly": opPlan, "but for lists": opList} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, prompt, func(t *testing.T, w *world) { deniedForHours(t, w, spared) })
		})
	}
}

func deniedForHours(t *testing.T, w *world, spared string) {
	t.Helper()
	var passes atomic.Int64
	refusal := w.cloud.wrap(provider.ErrDenied, "call", provider.Ref{}, errors.New("401 the key was revoked"))
	w.cloud.breakBy(func(op string, _ provider.Ref, _ provider.CreateRequest) fault {
		if op == opPlan {
			passes.Add(1)
		}
		if op == opPlan || op == spared {
			return fault{}
		}
		return fault{err: refusal}
	})
	for i := range fleetSize {
		w.add(i)
	}
	w.pass(10 * time.Minute)
	if n := w.count(waitsFor(v1alpha1.ReasonProviderUnavailable, "401 the key was revoked")); n != fleetSize {
		t.Errorf("%d wait: %s", n, w.summary())
	}
	for hour := range 2 {
		from, before := time.Now(), passes.Load()
		w.pass(time.Hour)
		calls, writes := w.cloud.since(from, opCreate, opGet, opDelete), w.link.since(from)
		lists := 0
		for _, l := range w.cloud.since(from, opList) {
			if l.err != nil {
				lists++
			}
		}
		t.Logf("hour %d: %d calls and %d denied lists, %d writes, %d passes", hour+1, len(calls), lists, len(writes), passes.Load()-before)
		if n := len(calls) + lists; n == 0 || n > 8 {
			t.Errorf("hour %d: %d calls", hour+1, n)
		}
		// A canary that is a creation puts its intent on record, and that it failed.
		if most := 2 * len(w.cloud.since(from, opCreate)); len(writes) > most {
			t.Errorf("hour %d: %d writes, want at most %d", hour+1, len(writes), most)
		}
		if n := passes.Load() - before; n > 12*int64(fleetSize) {
			t.Errorf("hour %d: %d passes", hour+1, n)
		}
	}
	w.cloud.resetPeak()
	w.cloud.breakBy(nil)
	mended := time.Now()
	found := w.until(20*time.Minute, "a canary is answered", func() bool {
		for _, c := range w.cloud.since(mended) {
			if c.err == nil && (c.op != opList || spared != opList) {
				return true
			}
		}
		return false
	})
	answered := time.Now()
	took := w.until(5*time.Minute, "all are Ready", func() bool { return w.count(ready) == fleetSize })
	t.Logf("mended: a canary was answered after %s, all are Ready %s later", found, took)
	w.expectSpread(answered.Add(-time.Second))
	if n := w.standing(); n != fleetSize {
		t.Errorf("%d instances", n)
	}
}
