package providertest

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkTimeRules are about when a check returns.
func checkTimeRules() []CheckRule {
	return []CheckRule{
		{"check-returns-at-once-with-an-ended-context", "A check whose context has ended before returns at once, with CheckTimeout for every target.", func(s *checkSuite) {
			s.need(s.with.Hang != nil, "Hang")
			cold, warm := s.checker(), s.checker()
			s.Cleanup(s.hangAll())
			ctx, cancel := context.WithTimeout(s.ctx, short)
			s.ask(ctx, warm, s.env.Limit)
			cancel()
			for who, c := range map[string]provider.Checker{"a provider that was never asked": cold, "one that was": warm} {
				s.atOnce(who, c, func() (context.Context, context.CancelFunc) {
					return context.WithDeadline(s.ctx, time.Now().Add(-time.Hour))
				})
				s.atOnce(who, c, func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(s.ctx)
					cancel()
					return ctx, cancel
				})
			}
		}},
		{"check-ends-with-its-context", "A check whose context ends while a target hangs returns soon after, with CheckTimeout for that one and the answers of the others.", func(s *checkSuite) {
			s.need(s.with.Hang != nil, "Hang")
			for _, target := range s.with.Targets {
				c := s.checker()
				restore := s.with.Hang(target)
				s.Cleanup(restore)
				s.endsSoon(target, c, func(after time.Duration) (context.Context, context.CancelFunc) {
					return context.WithTimeout(s.ctx, after)
				})
				s.endsSoon(target, c, func(after time.Duration) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(s.ctx)
					timer := time.AfterFunc(after, cancel)
					return ctx, func() { timer.Stop(); cancel() }
				})
				restore()
			}
		}},
	}
}

// atOnce tries a few times: a machine that is busy is no fault of the provider's.
func (s *checkSuite) atOnce(who string, c provider.Checker, ended func() (context.Context, context.CancelFunc)) {
	s.Helper()
	var took time.Duration
	for range 3 {
		ctx, cancel := ended()
		a := s.ask(ctx, c, s.env.Limit)
		cancel()
		if !a.late && !all(a.statuses, provider.CheckTimeout) {
			s.Errorf("%s: %s, want %s", who, lines(a.statuses), provider.CheckTimeout)
			return
		}
		if took = a.took; !a.late && took < s.with.Prompt {
			return
		}
	}
	s.Errorf("%s: a check whose context has ended takes %s", who, took)
}

// endsSoon tries with more time each time, for the others to answer on a machine that is busy.
func (s *checkSuite) endsSoon(hanging string, c provider.Checker, bound func(time.Duration) (context.Context, context.CancelFunc)) {
	s.Helper()
	complaint := ""
	for _, after := range []time.Duration{short, 4 * short, 16 * short} {
		ctx, cancel := bound(after)
		a := s.ask(ctx, c, after+s.env.Limit)
		cancel()
		complaint = ""
		for _, st := range a.statuses {
			want := provider.CheckReachable
			if st.Target == hanging {
				want = provider.CheckTimeout
			}
			if st.Reason != want {
				complaint = st.Target + " is " + st.Reason + " (" + st.Message + "), want " + want
			}
		}
		if complaint == "" && (a.late || a.took > after+time.Second) {
			complaint = "it takes " + a.took.String() + " with a context of " + after.String()
		}
		if complaint == "" {
			return
		}
	}
	s.Fatalf("with %s hanging: %s", hanging, complaint)
}
