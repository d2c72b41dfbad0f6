package providertest

import (
	"regexp"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxReasonBytes bounds a reason, as it bounds that of a gate and of an Event.
const maxReasonBytes = 64

var reasonForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// checkFormRules are about what holds for each status, whatever the state.
func checkFormRules() []CheckRule {
	return []CheckRule{
		{"check-answers-for-every-target", "A check returns one status for each target, sorted by name, whatever the state of any.", func(s *checkSuite) {
			want := slices.Sorted(slices.Values(s.with.Targets))
			s.everywhere(func(in string, got []provider.TargetStatus) {
				if !slices.Equal(names(got), want) {
					s.Errorf("%s: the targets are %q, want %q", in, names(got), want)
				}
			})
		}},
		{"check-ready-is-reachable", "A status is ready exactly when its reason is CheckReachable.", func(s *checkSuite) {
			s.everywhere(func(in string, got []provider.TargetStatus) {
				for _, st := range got {
					if st.Ready != (st.Reason == provider.CheckReachable) {
						s.Errorf("%s: %s is ready %v with reason %q", in, st.Target, st.Ready, st.Reason)
					}
				}
			})
		}},
		{"check-reasons-are-words", "A reason is one word in UpperCamelCase of at most 64 bytes.", func(s *checkSuite) {
			s.everywhere(func(in string, got []provider.TargetStatus) {
				for _, st := range got {
					if !reasonForm.MatchString(st.Reason) || len(st.Reason) > maxReasonBytes {
						s.Errorf("%s: the reason of %s is %q", in, st.Target, st.Reason)
					}
				}
			})
		}},
		{"check-targets-are-those-of-instances", "A target is named as Targeter names the place of the instances on it.", func(s *checkSuite) {
			s.need(len(s.with.IDs) > 0, "IDs")
			s.p = s.restart()
			s.Cleanup(func() { shut(s.p) })
			targeter, ok := s.p.(provider.Targeter)
			if !ok {
				s.Fatalf("%T is no provider.Targeter", s.p)
			}
			for _, target := range s.with.Targets {
				id, ok := s.with.IDs[target]
				if !ok {
					s.Fatalf("the harness has no ID on target %q", target)
				}
				if got := targeter.Target(provider.Ref{ID: id}); got != target {
					s.Errorf("the target of %s is %q, the check calls it %q", id, got, target)
				}
			}
			if ref := s.ref(s.request(), 1); !slices.Contains(s.with.Targets, targeter.Target(ref)) {
				s.Errorf("the target of %s is %q, of which no check speaks", ref.ID, targeter.Target(ref))
			}
		}},
	}
}
