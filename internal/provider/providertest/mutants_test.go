package providertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// mutant is a correct provider with single methods replaced.
type mutant struct {
	Watching
	watch  func(context.Context, func(provider.Change))
	plan   func(context.Context, provider.CreateRequest) (string, error)
	create func(context.Context, provider.CreateRequest, provider.Ref) error
	get    func(context.Context, provider.Ref) (*provider.Instance, error)
	delete func(context.Context, provider.Ref) error
	list   func(context.Context) (provider.Listing, error)
	update func(context.Context, provider.Ref, provider.Credentials) error
}

func (m *mutant) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if m.plan != nil {
		return m.plan(ctx, req)
	}
	return m.Watching.Plan(ctx, req)
}

func (m *mutant) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if m.create != nil {
		return m.create(ctx, req, ref)
	}
	return m.Watching.Create(ctx, req, ref)
}

func (m *mutant) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	if m.get != nil {
		return m.get(ctx, ref)
	}
	return m.Watching.Get(ctx, ref)
}

func (m *mutant) Delete(ctx context.Context, ref provider.Ref) error {
	if m.delete != nil {
		return m.delete(ctx, ref)
	}
	return m.Watching.Delete(ctx, ref)
}

func (m *mutant) ListByTag(ctx context.Context) (provider.Listing, error) {
	if m.list != nil {
		return m.list(ctx)
	}
	return m.Watching.ListByTag(ctx)
}

func (m *mutant) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	if m.update != nil {
		return m.update(ctx, ref, creds)
	}
	return m.Watching.UpdateCredentials(ctx, ref, creds)
}

func (m *mutant) Watch(ctx context.Context, tell func(provider.Change)) {
	if m.watch != nil {
		m.watch(ctx, tell)
		return
	}
	m.Watching.Watch(ctx, tell)
}

// fixGet passes every instance through f; fixList every listing.
func (m *mutant) fixGet(f func(ref provider.Ref, inst *provider.Instance)) {
	m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
		inst, err := m.Watching.Get(ctx, ref)
		if inst != nil {
			f(ref, inst)
		}
		return inst, err
	}
}

func (m *mutant) fixList(f func(provider.Instance) bool) {
	m.list = func(ctx context.Context) (provider.Listing, error) {
		l, err := m.Watching.ListByTag(ctx)
		l.Instances = slices.DeleteFunc(l.Instances, func(inst provider.Instance) bool { return !f(inst) })
		return l, err
	}
}

// missing makes Get deny what f picks.
func (m *mutant) missing(f func(ref provider.Ref, inst *provider.Instance) bool) {
	m.get = func(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
		inst, err := m.Watching.Get(ctx, ref)
		if inst != nil && f(ref, inst) {
			return nil, m.wrap("get", ref.ID, errAbsent)
		}
		return inst, err
	}
}

// forceRemove deletes whatever stands under the ID.
func (m *mutant) forceRemove(ctx context.Context, ref provider.Ref) error {
	zone, err := m.scope("delete", ref.ID)
	if err != nil {
		return err
	}
	found, _, err := m.backend.read(ctx, OpDeleteRead, ref, zone)
	if err != nil {
		return nil //nolint:nilerr // it takes what it cannot read for gone
	}
	return m.wrap("delete", ref.ID, m.backend.remove(ctx, ref, zone, found.identity))
}

func (m *mutant) standingMarks(ref provider.Ref) (marks provider.Marks, there bool) {
	for _, l := range m.backend.Instances() {
		if l.ID == ref.ID && !l.Pending {
			return l.Marks, true
		}
	}
	return marks, false
}

// succeedOn makes Create succeed where f accepts the marks of what stands there.
func (m *mutant) succeedOn(f func(found provider.Marks, ref provider.Ref) bool) {
	m.create = func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
		if found, there := m.standingMarks(ref); there && f(found, ref) {
			return nil
		}
		return m.Watching.Create(ctx, req, ref)
	}
}

// removeWhere makes Delete remove by name where f accepts the marks of what stands there.
func (m *mutant) removeWhere(f func(found provider.Marks, ref provider.Ref) bool) {
	m.delete = func(ctx context.Context, ref provider.Ref) error {
		if found, there := m.standingMarks(ref); there && f(found, ref) {
			return m.forceRemove(ctx, ref)
		}
		return m.Watching.Delete(ctx, ref)
	}
}

// breakage is one way to break a rule.
type breakage struct {
	kind Kind // KindGCP by default
	do   func(m *mutant)
}

// TestEveryRuleGoesRed breaks each rule in turn and expects the suite to notice under that rule's name.
func TestEveryRuleGoesRed(t *testing.T) {
	breakages := mutants()
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			broken, ok := breakages[rule.Name]
			if !ok {
				t.Fatal("no mutant breaks this rule")
			}
			if broken.kind == "" {
				broken.kind = KindGCP
			}
			if green := runRule(t, rule, broken.kind, nil); green.Failed || green.Skipped {
				t.Fatalf("red or skipped on the unbroken provider: %v", green.Messages)
			}
			if red := runRule(t, rule, broken.kind, broken.do); !red.Failed {
				t.Errorf("not red on its mutant (skipped: %v): %v", red.Skipped, red.Messages)
			} else {
				t.Logf("red as it should be: %s", red.Messages[0])
			}
		})
		delete(breakages, rule.Name)
	}
	for name := range breakages {
		t.Errorf("mutant %s breaks no rule of that name", name)
	}
}

func runRule(t *testing.T, rule Rule, kind Kind, breakIt func(*mutant)) Outcome {
	opts := BackendOptions{BootDelay: 5 * time.Second, DeleteDelay: 4 * time.Second, Visibility: 10 * time.Second}
	h := BackendHarness(kind, opts, func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
		m := &mutant{Watching: Watching{Updating{b.Provider(name, owner, w)}}}
		if breakIt != nil && owner.Installation == "conformance-a" && owner.Cluster == "cluster-a" {
			breakIt(m)
		}
		return m
	})
	rec := NewRecorder(t.Context())
	rec.Run(rule.Name, func(r T) {
		rule.run(r, func(r T) *Env {
			e := h(r)
			e.Polls = 90
			if breakIt != nil {
				e.Limit = 100 * time.Millisecond // for mutants that hang
			}
			return e
		})
	})
	o, _ := rec.Outcome(rule.Name)
	return o
}

func TestRulesAreNamedAndExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || seen[r.Name] || len(r.Sentence) < 20 || r.Sentence[len(r.Sentence)-1] != '.' {
			t.Errorf("rule %q with sentence %q: want a name of its own and a sentence", r.Name, r.Sentence)
		}
		seen[r.Name] = true
	}
}

// TestMissingCapabilitiesSkipVisibly strips a harness to what is required.
func TestMissingCapabilitiesSkipVisibly(t *testing.T) {
	full := BackendHarness(KindGCP, BackendOptions{BootDelay: time.Second, DeleteDelay: time.Second}, nil)
	rec := NewRecorder(t.Context())
	Run(rec, func(r T) *Env {
		e := full(r)
		return &Env{
			Provider: e.Provider, Owner: e.Owner, Request: e.Request, Window: e.Window, Wait: e.Wait, Leftovers: e.Leftovers,
		}
	})
	skipped := 0
	for name, o := range rec.Outcomes() {
		if o.Failed {
			t.Errorf("%s failed: %v", name, o.Messages)
		}
		if o.Skipped {
			skipped++
			if len(o.Messages) == 0 {
				t.Errorf("%s is skipped without a reason", name)
			}
		}
	}
	if skipped == 0 || skipped > len(Rules())/2 {
		t.Errorf("%d of %d rules are skipped", skipped, len(Rules()))
	}
}

// TestNothingIsSkippedOnTheBackend makes sure that the harness of the fakes has everything.
func TestNothingIsSkippedOnTheBackend(t *testing.T) {
	rec := NewRecorder(t.Context())
	Run(rec, BackendHarness(KindGCP, BackendOptions{}, nil))
	for name, o := range rec.Outcomes() {
		if o.Skipped || o.Failed {
			t.Errorf("%s: skipped %v, failed %v: %v", name, o.Skipped, o.Failed, o.Messages)
		}
	}
	if len(rec.Outcomes()) != len(Rules()) {
		t.Errorf("%d rules ran, there are %d", len(rec.Outcomes()), len(Rules()))
	}
}

var errMutant = errors.New("mutant")
