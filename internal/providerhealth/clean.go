package providerhealth

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// maxDetailKey bounds the names of details, in bytes.
const maxDetailKey = 64

// reasonForm is what a condition's reason may look like, less the marks that nobody uses.
var reasonForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// cleaned returns statuses as they may be shown: sorted, each target once, and everything within the bounds of the API.
// Checkers keep to them already; one that does not must not cost the entry its object.
func cleaned(statuses []provider.TargetStatus, secrets *message.Secrets) []provider.TargetStatus {
	// What is cut away must not cost more than what is kept.
	show := func(s string, limit int) string { return cut(message.Clean(cut(secrets.Hide(s), 4*limit)), limit) }
	plain := func(s string, limit int) string {
		return cut(strings.Join(strings.Fields(strings.ToValidUTF8(cut(secrets.Hide(s), 4*limit), "\uFFFD")), " "), limit)
	}
	out := make([]provider.TargetStatus, 0, len(statuses))
	for _, s := range statuses {
		// Not cleaned of what looks like an ID: a name is one, and the guard knows it by it.
		s.Target = plain(s.Target, v1alpha1.MaxTargetName)
		if s.Target == "" {
			s.Target = "unnamed"
		}
		s.Message = show(s.Message, v1alpha1.MaxTargetMessage)
		switch {
		case s.Ready:
			s.Reason = provider.CheckReachable
		case !reasonForm.MatchString(s.Reason) || s.Reason == provider.CheckReachable:
			s.Reason = provider.CheckAPIError
		}
		s.Latency = max(s.Latency, 0)
		s.Details = cleanedDetails(s.Details, plain, show)
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b provider.TargetStatus) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), compareReady(a, b))
	})
	// Of two with one name the one that is not ready counts.
	return slices.CompactFunc(out, func(a, b provider.TargetStatus) bool { return a.Target == b.Target })
}

func compareReady(a, b provider.TargetStatus) int {
	switch {
	case a.Ready == b.Ready:
		return 0
	case a.Ready:
		return 1
	}
	return -1
}

func cleanedDetails(details map[string]string, plain, show func(string, int) string) map[string]string {
	if len(details) == 0 {
		return nil
	}
	out := make(map[string]string, len(details))
	for _, key := range slices.Sorted(maps.Keys(details)) {
		if len(out) == v1alpha1.MaxTargetDetails {
			break
		}
		if k := plain(key, maxDetailKey); k != "" {
			out[k] = show(details[key], v1alpha1.MaxTargetDetail)
		}
	}
	return out
}

// cut shortens s to limit bytes on a rune edge.
func cut(s string, limit int) string {
	const elided = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(elided)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + elided
}
