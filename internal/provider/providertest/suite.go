package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Sentinels that must not appear anywhere; the suite puts them into its requests.
const (
	cloudInitSentinel = "sentinel-cloud-init-5f1c"
	passwordSentinel  = "sentinel-password-9b7e"
)

const entryName = "conformance"

// Rule is one rule of the contract.
type Rule struct {
	// Name is stable; it names the part of the test that checks the rule.
	Name string
	// Sentence says what has to hold.
	Sentence string

	check func(s *suite)
}

// Run checks every rule against what h makes, each as a part of t named after it.
func Run(t T, h Harness) {
	t.Helper()
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t T) { rule.run(t, h) })
	}
}

func (r Rule) run(t T, h Harness) {
	s := &suite{T: t, env: h(t)}
	s.env.defaults()
	log := funcr.NewJSON(s.keepLog, funcr.Options{Verbosity: 10})
	s.ctx = logr.NewContext(t.Context(), log)
	s.p = s.restart()
	r.check(s)
}

func (e *Env) defaults() {
	if e.Polls == 0 {
		e.Polls = 600
	}
	if e.Limit == 0 {
		e.Limit = 10 * time.Second
	}
	if e.Many == 0 {
		e.Many = 3
	}
}

// suite is one rule being checked.
type suite struct {
	T
	env *Env
	ctx context.Context //nolint:containedctx // that of the T beside it, with a logger; both end with the rule
	// p is the provider under test.
	p provider.Provider

	mu  sync.Mutex
	log []string
}

func (s *suite) keepLog(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
}

// need skips the rule where the harness lacks something.
func (s *suite) need(has bool, what string) {
	s.Helper()
	if !has {
		s.Skipf("the harness lacks %s", what)
	}
}

// restart returns a provider like the one under test, made anew.
func (s *suite) restart() provider.Provider { return s.env.Provider(entryName, s.env.Owner) }

// stranger returns the provider of another installation, or of the same installation's namesake in another cluster.
func (s *suite) stranger(otherCluster bool) provider.Provider {
	o := s.env.Owner
	if otherCluster {
		o.Cluster = "x" + o.Cluster[1:] + "x"
	} else {
		o.Installation = "x" + o.Installation[1:] + "x"
	}
	return s.env.Provider(entryName, o)
}

func (s *suite) request() provider.CreateRequest {
	req := s.env.Request()
	if !s.env.NoCloudInit && req.CloudInit == "" {
		req.CloudInit = "#cloud-config\n# " + cloudInitSentinel + "\n"
	}
	if !s.env.NoCredentials && req.Credentials == nil {
		req.Credentials = &provider.Credentials{Username: "user", Password: passwordSentinel, Revision: "r1"}
	}
	return req
}

// ref plans req and returns a fresh record of the attempt.
func (s *suite) ref(req provider.CreateRequest, attempt int64) provider.Ref {
	s.Helper()
	id, err := s.p.Plan(s.ctx, req)
	if err != nil {
		s.Fatalf("Plan of a valid request: %v", err)
	}
	return provider.Ref{ID: id, UID: req.UID, Attempt: attempt, RequestedAt: s.env.Window.Clock.Now()}
}

// total is how long after a record's time nothing sent under it can appear any more.
func (s *suite) total() time.Duration {
	return s.env.Window.CallTimeout + s.env.Window.Visibility + s.env.Window.Skew
}

// old returns ref as if it had been put on record longer ago than the whole window.
func (s *suite) old(ref provider.Ref) provider.Ref {
	ref.RequestedAt = s.env.Window.Clock.Now().Add(-s.total() - time.Second)
	return ref
}

// fresh returns ref as if it had been put on record just now.
func (s *suite) fresh(ref provider.Ref) provider.Ref {
	ref.RequestedAt = s.env.Window.Clock.Now()
	return ref
}

// create creates req's attempt and returns its record.
func (s *suite) create(req provider.CreateRequest, attempt int64) provider.Ref {
	s.Helper()
	ref := s.ref(req, attempt)
	if err := s.p.Create(s.ctx, req, ref); err != nil {
		s.Fatalf("Create of a valid request on an empty place: %v", err)
	}
	return ref
}

// poll tries f until it returns "", waiting in between, and fails with the last thing f complained about.
func (s *suite) poll(what string, f func() (complaint string)) {
	s.Helper()
	complaint := ""
	for range s.env.Polls {
		if complaint = f(); complaint == "" {
			return
		}
		if err := s.env.Wait(s.ctx); err != nil {
			s.Fatalf("waiting for %s: %v", what, err)
		}
	}
	s.Fatalf("%s did not come about: %s", what, complaint)
}

// reach polls until Get shows one of the states and returns what it showed. With old, the record is presented as one
// whose window has passed.
func (s *suite) reach(ref provider.Ref, states ...provider.State) *provider.Instance {
	s.Helper()
	var found *provider.Instance
	s.poll(fmt.Sprintf("%s being %v", ref.ID, states), func() string {
		inst, err := s.p.Get(s.ctx, ref)
		if err != nil {
			return "Get: " + err.Error()
		}
		if !slices.Contains(states, inst.State) {
			return fmt.Sprintf("it is %s (%s)", inst.State, inst.Message)
		}
		found = inst
		return ""
	})
	return found
}

// running creates an instance and waits until it runs.
func (s *suite) running(req provider.CreateRequest, attempt int64) (provider.Ref, *provider.Instance) {
	s.Helper()
	ref := s.create(req, attempt)
	return ref, s.reach(ref, provider.StateRunning)
}

// gone polls until Get proves absence for a record whose window has passed.
func (s *suite) gone(ref provider.Ref) {
	s.Helper()
	s.poll(ref.ID+" being gone", func() string {
		inst, err := s.p.Get(s.ctx, s.old(ref))
		if errors.Is(err, provider.ErrNotFound) {
			return ""
		}
		if err != nil {
			return "Get: " + err.Error()
		}
		return "it is " + string(inst.State)
	})
}

// list returns this installation's instances by ID, polling until complain finds nothing wrong.
func (s *suite) list(what string, complain func(map[string]provider.Instance) string) {
	s.Helper()
	s.poll(what, func() string {
		listing, err := s.p.ListByTag(s.ctx)
		if err != nil {
			return "ListByTag: " + err.Error()
		}
		return complain(byID(listing))
	})
}

func byID(l provider.Listing) map[string]provider.Instance {
	m := make(map[string]provider.Instance, len(l.Instances))
	for _, inst := range l.Instances {
		m[inst.ID] = inst
	}
	return m
}

func (s *suite) leftovers() []string {
	s.Helper()
	left, err := s.env.Leftovers(s.ctx)
	if err != nil {
		s.Fatalf("the leak probe failed: %v", err)
	}
	return left
}

// expectLeft compares the number of leftovers.
func (s *suite) expectLeft(n int, when string) {
	s.Helper()
	if left := s.leftovers(); len(left) != n {
		s.Errorf("%s: the leak probe finds %d things, want %d: %s", when, len(left), n, strings.Join(left, "; "))
	}
}

// expectClass compares the class of an error.
func (s *suite) expectClass(what string, err, class error) {
	s.Helper()
	if err == nil || !errors.Is(provider.Class(err), class) {
		s.Errorf("%s = %v, want an error of class %q", what, err, class)
	}
}

// expectUntouched checks that ref's instance is still the one that was shown before and not being removed.
func (s *suite) expectUntouched(p provider.Provider, ref provider.Ref, before *provider.Instance, by string) {
	s.Helper()
	for range 3 {
		now, err := p.Get(s.ctx, ref)
		if err != nil {
			s.Errorf("after %s: Get = %v", by, err)
			return
		}
		if now.Identity != before.Identity || now.State != before.State || now.Marks != before.Marks {
			s.Errorf("after %s: it is %s with identity %s and attempt %d, before it was %s, %s, %d", by,
				now.State, now.Identity, now.Marks.Attempt, before.State, before.Identity, before.Marks.Attempt)
			return
		}
		if err := s.env.Wait(s.ctx); err != nil {
			s.Fatalf("waiting: %v", err)
		}
	}
}
