package providertest

import (
	"maps"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkStateRules are about what a check says of the backend.
func checkStateRules() []CheckRule {
	return []CheckRule{
		{"check-tells-what-is-wrong", "What is wrong shows at the targets that it befalls, and nowhere else; once it is mended it is gone.", func(s *checkSuite) {
			c := s.checker()
			if got := s.check(c); !all(got, provider.CheckReachable) {
				s.Errorf("with nothing wrong: %s", lines(got))
			}
			for _, st := range s.with.States {
				unasked := s.checker()
				restore := st.Bring()
				s.expectState(st, s.check(c), "a provider that was asked before")
				s.expectState(st, s.check(unasked), "one that was not")
				restore()
				if got := s.check(c); !all(got, provider.CheckReachable) {
					s.Errorf("after %s was mended: %s", st.Name, lines(got))
				}
			}
		}},
		{"check-repeats-itself", "The same state has the same reason, message and kinds of details, whatever IDs and times the backend puts into its answers.", func(s *checkSuite) {
			for _, st := range append([]CheckState{{Name: "nothing wrong", Bring: func() func() { return func() {} }}}, s.with.States...) {
				c, other := s.checker(), s.checker()
				restore := st.Bring()
				first := gist(s.check(c))
				for range 2 {
					s.expectGist(st.Name, first, s.check(c))
				}
				s.expectGist(st.Name+", another provider", first, s.check(other))
				restore()
			}
			if s.with.Say == nil {
				return
			}
			var first []gistOf
			for n := range 3 {
				c := s.checker()
				restore := s.with.Say(noise(n, 0, s.with.Secrets))
				got := s.check(c)
				restore()
				if first == nil {
					first = gist(got)
				}
				s.expectGist("the same answer with other IDs and times", first, got)
			}
		}},
		{"check-leaves-nothing-behind", "A check makes nothing on the backend, and leaves nothing in it.", func(s *checkSuite) {
			s.need(s.env.Leftovers != nil, "Leftovers")
			before := slices.Sorted(slices.Values(s.leftovers()))
			s.everywhere(func(in string, _ []provider.TargetStatus) {
				// A folder that is away shows nothing; it is looked at again when all is well.
				if now := slices.Sorted(slices.Values(s.leftovers())); len(now) > len(before) {
					s.Errorf("%s: there are %q, before there were %q", in, now, before)
				}
			})
			if now := slices.Sorted(slices.Values(s.leftovers())); !slices.Equal(now, before) {
				s.Errorf("after all checks there are %q, before there were %q", now, before)
			}
		}},
	}
}

func (s *checkSuite) expectState(want CheckState, got []provider.TargetStatus, who string) {
	s.Helper()
	for _, st := range got {
		reason := want.Reason
		if want.Targets != nil && !slices.Contains(want.Targets, st.Target) {
			reason = provider.CheckReachable
		}
		if st.Reason != reason {
			s.Errorf("%s: %s calls %s %s (%s), want %s", want.Name, who, st.Target, st.Reason, st.Message, reason)
		}
	}
}

// gistOf is what must not change while nothing does.
type gistOf struct {
	target, reason, message string
	details                 []string
}

func gist(all []provider.TargetStatus) []gistOf {
	out := make([]gistOf, len(all))
	for i, st := range all {
		out[i] = gistOf{st.Target, st.Reason, st.Message, slices.Sorted(maps.Keys(st.Details))}
	}
	return out
}

func (s *checkSuite) expectGist(in string, first []gistOf, got []provider.TargetStatus) {
	s.Helper()
	same := func(a, b gistOf) bool {
		return a.target == b.target && a.reason == b.reason && a.message == b.message && slices.Equal(a.details, b.details)
	}
	if now := gist(got); !slices.EqualFunc(first, now, same) {
		s.Errorf("%s: the check says %q and then %q", in, first, now)
	}
}

// lines is what statuses say, in short.
func lines(all []provider.TargetStatus) (out string) {
	for _, st := range all {
		out += st.Target + " is " + st.Reason + " (" + st.Message + "); "
	}
	return out
}
