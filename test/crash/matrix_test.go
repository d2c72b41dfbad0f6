package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// maxPasses bounds a run; a normal one takes well under a hundred.
const maxPasses = 600

func (w *world) ctx() context.Context { return context.Background() }

func instanceName(p *v1alpha1.Proxy) string { return provider.NameFromUID(string(p.UID)) }

// tell runs f to its end and returns what is wrong.
func (w *world) tell(f flow) error {
	w.create()
	steps := f.steps
	for range maxPasses {
		if len(steps) == 0 && w.get() == nil {
			break
		}
		if len(steps) > 0 && steps[0].when(w) {
			steps[0].do(w)
			steps = steps[1:]
		}
		w.pass()
	}
	if len(steps) > 0 {
		return fmt.Errorf("the story did not get on, %d steps are left: %w", len(steps), w.converged())
	}
	if p := w.get(); p != nil {
		return fmt.Errorf("the Proxy was not released: %+v", p.Status)
	}
	for range 20 { // nothing comes late
		w.clock.Step(provisioningWindow)
		w.look()
	}
	var errs []error
	if left := w.backend.Instances(); len(left) > 0 {
		errs = append(errs, fmt.Errorf("left behind: %v", left))
	}
	if !f.restored {
		errs = append(errs, w.released, w.lied)
		if w.maxVisible > 1 {
			errs = append(errs, fmt.Errorf("%d instances were there at one time", w.maxVisible))
		}
	}
	return errors.Join(errs...)
}

const provisioningWindow = callTimeout + 90*1e9 + skew

// converged reports what is missing for a living Proxy to be right.
func (w *world) converged() error {
	p := w.get()
	if p == nil {
		return errors.New("the Proxy is gone")
	}
	left := w.backend.Instances()
	if len(left) != 1 {
		return fmt.Errorf("%d instances for a living Proxy: %v; status %+v", len(left), left, p.Status)
	}
	rec := p.Status.Instance
	if rec == nil || left[0].ID != p.Status.ProviderID || left[0].Marks.Attempt != rec.Attempt {
		return fmt.Errorf("the record %q %+v is not the instance %v", p.Status.ProviderID, rec, left[0])
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	if c == nil || c.Reason != v1alpha1.ReasonCreated {
		return fmt.Errorf("the condition is %+v", c)
	}
	return nil
}

// TestMatrix kills the operator around every effect of every flow. CRASH_SEED changes the jitter.
func TestMatrix(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("CRASH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CRASH_SEED=%q: %v", text, err)
		}
		seed = n
	}
	kinds, visible := []providertest.Kind{providertest.KindGCP, providertest.KindEC2, providertest.KindName}, visibilities()
	if raceEnabled {
		// The race detector makes a run ten times slower and there is one operator at a time: a sample is enough for it.
		kinds, visible = kinds[:1], visible[:1]
	}
	runs, points := make(chan int, 1000), make(chan int, 1000)
	t.Run("flows", func(t *testing.T) {
		for _, f := range flows() {
			for _, kind := range kinds {
				for _, vis := range visible {
					t.Run(fmt.Sprintf("%s/%s/%s", f.name, kind, vis.name), func(t *testing.T) {
						t.Parallel()
						effects, n := around(t, f, kind, vis, seed)
						points <- effects
						runs <- n
					})
				}
			}
		}
	})
	close(runs)
	close(points)
	total, effects := 0, 0
	for n := range runs {
		total += n
	}
	for n := range points {
		effects += n
	}
	t.Logf("points %d, flows %d, kinds %d, visibilities %d, runs %d", effects, len(flows()), len(kinds), len(visible), total)
	if total < 3*effects {
		t.Errorf("%d runs for %d points", total, effects)
	}
}

// around runs f once as it is and then with a death around each of its effects.
func around(t *testing.T, f flow, kind providertest.Kind, vis visibility, seed uint64) (effects, runs int) {
	t.Helper()
	normal := newWorld(kind, vis, seed)
	if err := normal.tell(f); err != nil {
		t.Fatalf("without a death: %v\neffects: %q", err, normal.effects)
	}
	if len(normal.effects) < f.least {
		t.Fatalf("%d effects, at least %d belong to this flow: %q", len(normal.effects), f.least, normal.effects)
	}
	for i := range normal.effects {
		for _, m := range []moment{before, unanswered, answered} {
			w := newWorld(kind, vis, seed)
			w.killAt, w.when = i, m
			// Flows keep state in their steps, so each run tells a new one.
			if err := w.tell(again(f.name)); err != nil {
				t.Errorf("death at effect %d (%s), %s (seed %d): %v\neffects: %q", i, normal.effects[i], m, seed, err, w.effects)
				return len(normal.effects), runs
			}
			runs++
		}
	}
	return len(normal.effects), runs
}

func again(name string) flow {
	for _, f := range flows() {
		if f.name == name {
			return f
		}
	}
	panic("no flow " + name)
}
