package providerhealth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// maxNames bounds how many targets a text names for each reason.
const maxNames = 5

func allReady(n int) string {
	if n == 1 {
		return "the target is ready"
	}
	return fmt.Sprintf("all %d targets are ready", n)
}

// trouble is one target that is not ready, in words.
func trouble(t v1alpha1.ProviderTarget) string {
	if t.Message == "" {
		return t.Target + ": " + t.Reason
	}
	return t.Target + ": " + t.Reason + ": " + t.Message
}

// troubles are all that are not ready, of so many.
func troubles(down []v1alpha1.ProviderTarget, of int) string {
	switch {
	case of == 1:
		return trouble(down[0])
	case len(down) == 1:
		return fmt.Sprintf("1 of %d targets is not ready: %s", of, trouble(down[0]))
	}
	byReason, reasons := map[string][]string{}, []string{}
	for _, t := range down {
		if byReason[t.Reason] == nil {
			reasons = append(reasons, t.Reason)
		}
		byReason[t.Reason] = append(byReason[t.Reason], t.Target)
	}
	slices.Sort(reasons)
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		parts = append(parts, fmt.Sprintf("%s (%d): %s", r, len(byReason[r]), named(byReason[r])))
	}
	return fmt.Sprintf("%d of %d targets are not ready: %s", len(down), of, strings.Join(parts, "; "))
}

// named lists names as far as there is room.
func named(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
