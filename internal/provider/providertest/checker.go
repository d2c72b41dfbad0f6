package providertest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// CheckerHarness prepares an environment of its own for each rule. What it starts it removes with t.Cleanup.
type CheckerHarness func(t T) *CheckerEnv

// CheckerEnv is the backend of a provider.Checker as the suite may use it. Env.Provider, Owner, Request and Window are
// required, and so is Targets; a rule that needs anything else which is nil is skipped and says so. The suite calls
// Provider once for each state; it closes what it gets, so a provider has to bear being closed twice.
type CheckerEnv struct {
	*Env
	// Targets are the names of all targets.
	Targets []string
	// IDs has the ID of some instance on each target; it need not exist.
	IDs map[string]string
	// States are what can be wrong with the backend.
	States []CheckState
	// Say makes the backend answer whatever a check asks with an error of that text, on each target.
	Say func(text string) (restore func())
	// Secrets are what stands in the credentials of the provider. The suite has some of its own in what it lets Say say.
	Secrets []string
	// Hang makes the target take what is sent to it and not answer. Calls that hang may be answered by restore, which may be
	// called twice.
	Hang func(target string) (restore func())
	// Prompt is how long, in real time, a check may take whose context has ended before; default 500 ms.
	Prompt time.Duration
}

// CheckState is one thing that can be wrong.
type CheckState struct {
	// Name of the state, and what its targets have to be called.
	Name, Reason string
	// Targets that it befalls; nil is all of them. The others stay as they are.
	Targets []string
	// Bring makes it so for the providers that there are.
	Bring func() (restore func())
}

// CheckRule is one rule for checkers.
type CheckRule struct {
	// Name is stable; it names the part of the test that checks the rule.
	Name string
	// Sentence says what has to hold.
	Sentence string

	check func(s *checkSuite)
}

// CheckRules returns every rule for checkers in the order in which RunChecker checks them.
func CheckRules() []CheckRule {
	return slices.Concat(checkFormRules(), checkStateRules(), checkTextRules(), checkTimeRules(), checkCompanyRules(), checkEndRules())
}

// RunChecker checks every rule for checkers against what h makes, each as a part of t named after it. The parts count
// goroutines: nothing else may run beside them.
func RunChecker(t T, h CheckerHarness) {
	t.Helper()
	for _, rule := range CheckRules() {
		t.Run(rule.Name, func(t T) { rule.run(t, h) })
	}
}

func (r CheckRule) run(t T, h CheckerHarness) {
	env := h(t)
	env.defaults()
	if env.Prompt == 0 {
		env.Prompt = 500 * time.Millisecond
	}
	s := &checkSuite{suite: &suite{T: t, env: env.Env}, with: env}
	s.ctx = logr.NewContext(t.Context(), funcr.NewJSON(s.keepLog, funcr.Options{Verbosity: 10}))
	r.check(s)
}

// checkSuite is one rule being checked.
type checkSuite struct {
	*suite
	with *CheckerEnv
}

// checker returns a provider made anew, which is closed at the end of the rule.
func (s *checkSuite) checker() provider.Checker {
	s.Helper()
	p := s.restart()
	s.Cleanup(func() { shut(p) })
	c, ok := p.(provider.Checker)
	if !ok {
		s.Fatalf("%T is no provider.Checker", p)
	}
	return c
}

// shut closes what can be closed.
func shut(p any) {
	if c, ok := p.(io.Closer); ok {
		_ = c.Close() // that it was closed before is no failure
	}
}

// answer is what one check said, and how long it took in real time.
type answer struct {
	statuses []provider.TargetStatus
	took     time.Duration
	// late: it had not come back after the limit, and was left alone.
	late bool
}

// ask makes one check. It blocks at most for limit.
func (s *checkSuite) ask(ctx context.Context, c provider.Checker, limit time.Duration) answer {
	said := make(chan []provider.TargetStatus, 1)
	failed := make(chan any, 1)
	began := time.Now()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				failed <- p
			}
		}()
		said <- c.Check(ctx)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got := <-said:
		return answer{statuses: got, took: time.Since(began)}
	case p := <-failed:
		s.Fatalf("the check panics: %v", p)
	case <-timer.C:
	}
	return answer{took: time.Since(began), late: true}
}

// check is a check that nothing hinders.
func (s *checkSuite) check(c provider.Checker) []provider.TargetStatus {
	s.Helper()
	a := s.ask(s.ctx, c, 3*s.env.Limit)
	if a.late {
		s.Fatalf("the check has not come back after %s", a.took)
	}
	return a.statuses
}

// hangAll makes every target hang.
func (s *checkSuite) hangAll() (restore func()) {
	s.need(s.with.Hang != nil, "Hang")
	var all []func()
	for _, target := range s.with.Targets {
		all = append(all, s.with.Hang(target))
	}
	return func() {
		for _, restore := range slices.Backward(all) {
			restore()
		}
	}
}

// short is a deadline for checks that are to run into it.
const short = 200 * time.Millisecond

// everywhere calls f with what a provider that was never asked says in each state that the harness can bring about, and in those that
// come of contexts alone.
func (s *checkSuite) everywhere(f func(in string, got []provider.TargetStatus)) {
	s.Helper()
	one := func(in string, ctx context.Context, c provider.Checker) {
		s.Helper()
		a := s.ask(ctx, c, 3*s.env.Limit)
		if a.late {
			s.Fatalf("%s: the check has not come back after %s", in, a.took)
		}
		f(in, a.statuses)
	}
	one("with nothing wrong", s.ctx, s.checker())
	for _, st := range s.with.States {
		c := s.checker()
		restore := st.Bring()
		one(st.Name, s.ctx, c)
		restore()
	}
	if s.with.Say != nil {
		for i, text := range []string{noise(1, 0, s.with.Secrets), noise(2, 400, s.with.Secrets)} {
			c := s.checker()
			restore := s.with.Say(text)
			one(fmt.Sprintf("with error text %d", i), s.ctx, c)
			restore()
		}
	}
	if s.with.Hang != nil {
		for _, target := range s.with.Targets {
			c := s.checker()
			restore := s.with.Hang(target)
			ctx, cancel := context.WithTimeout(s.ctx, short)
			one("with "+target+" hanging", ctx, c)
			cancel()
			restore()
		}
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	one("with a context that has ended", ended, s.checker())
	closed := s.checker()
	shut(closed)
	one("after Close", s.ctx, closed)
}

// names returns the targets in the order in which they stand.
func names(all []provider.TargetStatus) []string {
	out := make([]string, len(all))
	for i, st := range all {
		out[i] = st.Target
	}
	return out
}

// all reports whether every status has the reason.
func all(statuses []provider.TargetStatus, reason string) bool {
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(st provider.TargetStatus) bool { return st.Reason != reason })
}
