package providertest

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// watchMutants break what a watch tells. The others list as they should.
func watchMutants() map[string]breakage {
	telling := func(f func(provider.Change) (provider.Change, bool)) breakage {
		return breakWith(func(m *mutant) {
			m.watch = func(ctx context.Context, tell func(provider.Change)) {
				m.Watching.Watch(ctx, func(c provider.Change) {
					if c, ok := f(c); ok {
						tell(c)
					}
				})
			}
		})
	}
	return map[string]breakage{
		"watch-tells-what-is-there": telling(func(c provider.Change) (provider.Change, bool) {
			c.Instance.Marks.Attempt = 1
			return c, true
		}),
		"watch-tells-what-comes": telling(func(c provider.Change) (provider.Change, bool) {
			return c, c.Gone || c.Instance.State == provider.StateProvisioning
		}),
		"watch-tells-what-ends": telling(func(c provider.Change) (provider.Change, bool) {
			return c, c.Instance.State == provider.StateRunning
		}),
		"watch-tells-what-is-gone": telling(func(c provider.Change) (provider.Change, bool) { return c, !c.Gone }),
		"watch-tells-only-of-own": breakWith(func(m *mutant) {
			m.watch = func(ctx context.Context, tell func(provider.Change)) {
				m.Watching.Watch(ctx, func(c provider.Change) {
					for _, l := range m.backend.Instances() {
						tell(provider.Change{Instance: provider.Instance{ID: l.ID, Marks: l.Marks, Identity: l.Identity}})
					}
					tell(c)
				})
			}
		}),
		"watch-ends-with-its-context": breakWith(func(m *mutant) {
			m.watch = func(ctx context.Context, tell func(provider.Change)) {
				m.Watching.Watch(ctx, tell)
				<-time.After(time.Second)
			}
		}),
	}
}
