package providertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkMutant is a correct checker with something broken.
type checkMutant struct {
	Checked
	said   func(ctx context.Context) []provider.TargetStatus
	target func(provider.Ref) string
	create func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error
	get    func(ctx context.Context, ref provider.Ref) (*provider.Instance, error)
	close  func()
	// end is when the test ends.
	end <-chan struct{}
}

func (m *checkMutant) Check(ctx context.Context) []provider.TargetStatus {
	if m.said != nil {
		return m.said(ctx)
	}
	return m.Checked.Check(ctx)
}

func (m *checkMutant) Target(ref provider.Ref) string {
	if m.target != nil {
		return m.target(ref)
	}
	return m.Checked.Target(ref)
}

func (m *checkMutant) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if m.create != nil {
		return m.create(ctx, req, ref)
	}
	return m.Checked.Create(ctx, req, ref)
}

func (m *checkMutant) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	if m.get != nil {
		return m.get(ctx, ref)
	}
	return m.Checked.Get(ctx, ref)
}

func (m *checkMutant) Close() error {
	if m.close != nil {
		m.close()
	}
	return nil
}

// fix passes every status through f.
func fix(f func(ctx context.Context, st *provider.TargetStatus)) func(*checkMutant) {
	return func(m *checkMutant) {
		m.said = func(ctx context.Context) []provider.TargetStatus {
			all := m.Checked.Check(ctx)
			for i := range all {
				f(ctx, &all[i])
			}
			return all
		}
	}
}

// raw returns what the backend says without the care that is taken of it.
func (m *checkMutant) raw(ctx context.Context, zone string) string {
	err := m.backend.call(ctx, OpCheck, provider.Ref{ID: "zones/" + zone + "/instances/check"}, zone, func(time.Time, Fault) error { return nil })
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestEveryRuleForCheckersGoesRed breaks each rule in turn and expects the suite to notice under that rule's name.
func TestEveryRuleForCheckersGoesRed(t *testing.T) {
	mutants := checkMutants()
	for _, rule := range CheckRules() {
		t.Run(rule.Name, func(t *testing.T) {
			if green := runCheckRule(t, rule, nil); green.Failed || green.Skipped {
				t.Fatalf("red or skipped on the unbroken checker: %v", green.Messages)
			}
			if len(mutants[rule.Name]) == 0 {
				t.Fatal("no mutant breaks this rule")
			}
			for name, breakIt := range mutants[rule.Name] {
				if red := runCheckRule(t, rule, breakIt); !red.Failed {
					t.Errorf("not red on %q (skipped: %v): %v", name, red.Skipped, red.Messages)
				} else {
					t.Logf("%s: red as it should be: %.300s", name, red.Messages[0])
				}
			}
		})
		delete(mutants, rule.Name)
	}
	for name := range mutants {
		t.Errorf("mutants of %s break no rule of that name", name)
	}
}

func runCheckRule(t *testing.T, rule CheckRule, breakIt func(*checkMutant)) Outcome {
	h := BackendCheckerHarness(KindGCP, BackendOptions{}, func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
		m := &checkMutant{Checked: b.Checked(name, owner, w), end: t.Context().Done()}
		if breakIt != nil {
			breakIt(m)
		}
		return m
	})
	rec := NewRecorder(t.Context())
	rec.Run(rule.Name, func(r T) {
		rule.run(r, func(r T) *CheckerEnv {
			e := h(r)
			if breakIt != nil {
				e.Limit, e.Prompt = 2*time.Second, 50*time.Millisecond
			}
			return e
		})
	})
	o, _ := rec.Outcome(rule.Name)
	return o
}

func TestRulesForCheckersAreNamedAndExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range CheckRules() {
		if !strings.HasPrefix(r.Name, "check-") || seen[r.Name] || len(r.Sentence) < 20 || !strings.HasSuffix(r.Sentence, ".") {
			t.Errorf("rule %q with sentence %q: want a name of its own and a sentence", r.Name, r.Sentence)
		}
		seen[r.Name] = true
	}
}

// TestWhatAHarnessForCheckersLacksIsSkippedVisibly strips one to what is required.
func TestWhatAHarnessForCheckersLacksIsSkippedVisibly(t *testing.T) {
	full := BackendCheckerHarness(KindName, BackendOptions{}, nil)
	rec := NewRecorder(t.Context())
	RunChecker(rec, func(r T) *CheckerEnv {
		e := full(r)
		return &CheckerEnv{
			Env:     &Env{Provider: e.Provider, Owner: e.Owner, Request: e.Request, Window: e.Window, Wait: e.Wait},
			Targets: e.Targets,
		}
	})
	skipped := 0
	for name, o := range rec.Outcomes() {
		if o.Failed {
			t.Errorf("%s failed: %v", name, o.Messages)
		}
		if o.Skipped {
			skipped++
		}
	}
	if skipped == 0 || skipped == len(CheckRules()) {
		t.Errorf("%d of %d rules are skipped", skipped, len(CheckRules()))
	}
}
