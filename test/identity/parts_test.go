package identity

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// entries are the provider entries of an operator.
type entries []registry.Handle

func (e entries) All() []registry.Handle { return e }

func (e entries) Lookup(name string) (h registry.Handle, ok bool) {
	for _, h := range e {
		if h.Name == name {
			return h, true
		}
	}
	return h, false
}

// stopKey is where a context carries its own end.
type stopKey struct{}

// once are an operator's entries whose first list ends the context that it was asked with. It makes the observer's loop
// a call: it returns when that list is taken in, with no goroutine left and no time passed.
type once struct{ o *operator }

func (e once) All() []registry.Handle {
	h := e.o.entries[0]
	h.Provider = lastList{h.Provider}
	return []registry.Handle{h}
}

type lastList struct{ provider.Provider }

func (p lastList) ListByTag(ctx context.Context) (provider.Listing, error) {
	if stop, ok := ctx.Value(stopKey{}).(context.CancelFunc); ok {
		defer stop()
	}
	return p.Provider.ListByTag(ctx)
}

// answering is the health engine's side towards the reconciler: the verdicts are in the store.
type answering struct{ o *operator }

func (a answering) Verdict(key types.NamespacedName) (fleet.Verdict, bool) {
	p := a.o.store.Get(key)
	if p == nil {
		return fleet.Verdict{}, false
	}
	return p.Verdict, true
}

func (a answering) Replaceable(types.NamespacedName, fleet.Subject) (replaceable, unsure bool) {
	return false, false
}

type unleased struct{}

func (unleased) Withdraw(fleet.LeaseKey) int { return 0 }
func (unleased) Readmit(fleet.LeaseKey)      {}

type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

type unmeasured struct{}

func (unmeasured) ProviderRequest(string, string, string, time.Duration) {}
