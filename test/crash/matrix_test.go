package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// maxPasses bounds a run; a normal one takes well under a hundred.
const maxPasses = 600

func (w *world) ctx() context.Context { return ctrl.LoggerInto(context.Background(), logr.Discard()) }

func instanceName(p *v1alpha1.Proxy) string { return provider.NameFromUID(string(p.UID)) }

// tell runs f to its end and returns what is wrong.
func (w *world) tell(f flow) error {
	w.create()
	w.story = f.steps
	for n := 0; n < maxPasses && !w.told(); n++ {
		w.turn()
	}
	if len(w.story) > 0 {
		return fmt.Errorf("the story did not get on, %d steps are left: %w", len(w.story), w.converged())
	}
	if p := w.get(); p != nil {
		return fmt.Errorf("the Proxy was not released: %+v", p.Status)
	}
	for range 20 { // nothing comes late
		w.clock.Step(provisioningWindow)
		if len(w.backend.others()) > 0 {
			w.poll()
		}
		w.look()
	}
	errs := []error{w.empty(), w.removed}
	if !f.restored {
		errs = append(errs, w.released, w.lied)
		if w.maxVisible > 1 {
			errs = append(errs, fmt.Errorf("%d instances were there at one time", w.maxVisible))
		}
	}
	return errors.Join(errs...)
}

// told reports whether the story has come to its end.
func (w *world) told() bool { return len(w.story) == 0 && w.get() == nil }

// turn takes the next step of the story, if it is time for it, and lets the operator make a pass.
func (w *world) turn() {
	if len(w.story) > 0 && w.story[0].when(w) && (w.when != overtaken || w.backend.InFlight() == 0) {
		w.spare(true)
		do := w.story[0].do
		w.story = w.story[1:]
		do(w)
	}
	w.pass()
	w.spare(false)
}

const provisioningWindow = callTimeout + 90*1e9 + skew

// empty returns what is left at the backend.
func (w *world) empty() error {
	left, others := w.backend.Instances(), w.backend.others()
	if len(left) == 0 && len(others) == 0 {
		return nil
	}
	return fmt.Errorf("left behind: %v %v", left, others)
}

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
	var on []ground
	for _, kind := range providertest.Kinds() {
		on = append(on, onMemory(kind))
	}
	if raceEnabled {
		on = on[:1]
	}
	matrix(t, on...)
}

// matrix returns how often each effect was one to die around, and whether everything was run.
func matrix(t *testing.T, on ...ground) (points map[string]int, whole bool) {
	t.Helper()
	seed, visible, told := crashSeed(t), 0, 0
	var mu sync.Mutex
	points = map[string]int{}
	runs, total := 0, 0
	t.Run("flows", func(t *testing.T) {
		for _, g := range on {
			if raceEnabled {
				// The race detector makes a run ten times slower and there is one operator at a time: a sample is enough for it.
				g.visible = g.visible[:1]
			}
			visible += len(g.visible)
			for _, f := range flows() {
				for _, vis := range g.visible {
					t.Run(fmt.Sprintf("%s/%s/%s", f.name, g.name, vis.name), func(t *testing.T) {
						t.Parallel()
						effects, n := around(t, f, g, vis, seed)
						mu.Lock()
						defer mu.Unlock()
						for _, name := range effects {
							points[name]++
						}
						runs, total, told = runs+n, total+len(effects), told+1
					})
				}
			}
		}
	})
	t.Logf("points %d, flows %d, kinds %d, visibilities %d, runs %d, %v", total, len(flows()), len(on), visible/len(on), runs, points)
	if runs < 3*total {
		t.Errorf("%d runs for %d points", runs, total)
	}
	return points, told == visible*len(flows()) && !raceEnabled
}

// around runs f once as it is and then with a death around each of its effects.
func around(t *testing.T, f flow, on ground, vis visibility, seed uint64) (effects []string, runs int) {
	t.Helper()
	normal := newWorld(on, vis, seed)
	defer normal.close()
	if err := normal.tell(f); err != nil {
		t.Fatalf("without a death: %v\neffects: %q", err, normal.effects)
	}
	if len(normal.effects) < f.least {
		t.Fatalf("%d effects, at least %d belong to this flow: %q", len(normal.effects), f.least, normal.effects)
	}
	for i := range normal.effects {
		moments := []moment{before, unanswered, answered}
		if !strings.HasPrefix(normal.effects[i], "write") { // the API server answers at once
			moments = append(moments, overtaken)
		}
		for _, m := range moments {
			w := newWorld(on, vis, seed)
			w.killAt, w.when = i, m
			// Flows keep state in their steps, so each run tells a new one.
			err := w.tell(again(f.name))
			w.close()
			if err != nil {
				t.Errorf("death at effect %d (%s), %s (seed %d): %v\neffects: %q\n%s", i, normal.effects[i], m, seed, err, w.effects, strings.Join(w.backend.history(), "\n"))
				return normal.effects, runs
			}
			runs++
		}
	}
	return normal.effects, runs
}

func again(name string) flow {
	for _, f := range flows() {
		if f.name == name {
			return f
		}
	}
	panic("no flow " + name)
}
