package registry

import (
	"context"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// disowns says why next must not take the place of old, nil where it may. old is nil where there was none.
func (r *Registry) disowns(ctx context.Context, old provider.Provider, next Handle, inUse InUse) *Refusal {
	ids, err := inUse(ctx, next.Name)
	switch {
	case err != nil:
		return refuse(next.Name, Unasked, "what is in use cannot be found out: %v", err)
	case len(ids) == 0:
		return nil
	}
	scope, ok := instrument.As[provider.Scoper](next.raw)
	if !ok {
		return refuse(next.Name, Disowns, "instances are in use, and type %s cannot tell whether they stay in its scope", next.Type)
	}
	slices.Sort(ids) // so that the same is said of the same
	for _, id := range ids {
		if err := scope.InScope(id); err != nil {
			return refuse(next.Name, Disowns, "%s is in use and would be out of the entry's scope: %s", id, provider.Cause(err))
		}
	}
	before, ok := instrument.As[provider.Scoper](old)
	if !ok {
		return nil
	}
	for _, id := range ids {
		if was, is := before.Sites(id), scope.Sites(id); elsewhere(was, is) {
			return refuse(next.Name, Disowns, "%s is in use and would be looked for elsewhere: in %q, not in %q", id, is[0], was[0])
		}
	}
	return nil
}

// elsewhere reports whether both say where they look, and nothing of it is the same.
func elsewhere(was, is []string) bool {
	return len(was) > 0 && len(is) > 0 && !slices.ContainsFunc(is, func(s string) bool { return slices.Contains(was, s) })
}
