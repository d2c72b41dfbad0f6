package instrument

import (
	"errors"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Retirement is a provider that is on its way out.
type Retirement struct {
	guard   *guarded
	drained chan struct{}
}

// Retire lets no new call through to p, so that it can be replaced by another: they fail with ErrTransient and
// provider.ReasonBusy. Passes (see WithPass) that hold a place go on to their end, whatever they call. Reserve takes the
// place before an intent is written, so once Drained is closed no intent can appear any more that p would have to answer
// for. It does not block. Without a guard around p nothing is held up, and Drained is closed at once.
func Retire(p provider.Provider) *Retirement {
	r := &Retirement{guard: guardOf(p), drained: make(chan struct{})}
	if r.guard == nil {
		close(r.drained)
		return r
	}
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	r.guard.retired[r] = struct{}{}
	if r.guard.inUse == 0 {
		close(r.drained)
	}
	return r
}

// Drained is closed when no call, lists and plans included, is in flight and no pass holds a place. It stays closed.
func (r *Retirement) Drained() <-chan struct{} {
	return r.drained
}

// Resume lets calls through again, unless another retirement is under way. It does not block; twice does nothing more.
func (r *Retirement) Resume() {
	if r.guard == nil {
		return
	}
	r.guard.mu.Lock()
	defer r.guard.mu.Unlock()
	delete(r.guard.retired, r)
}

// use notes that a place was taken or given back. The guard's lock is held.
func (g *guarded) use(n int) {
	if g.inUse += n; g.inUse > 0 {
		return
	}
	for r := range g.retired {
		select {
		case <-r.drained: // it was drained when it began
		default:
			close(r.drained)
		}
	}
}

// retiring returns the error of a call that came too late. The guard's lock is held.
func (g *guarded) retiring(ps *pass, op, id string) error {
	if len(g.retired) == 0 || ps != nil && ps.holdsAny(g) {
		return nil
	}
	err := errors.New("the provider entry is being replaced")
	return provider.Wrap(provider.ErrTransient, op, g.name, id, err).WithReason(provider.ReasonBusy)
}

// guardOf finds the guard around p, nil where there is none.
func guardOf(p provider.Provider) *guarded {
	if g, ok := As[interface{ guard() *guarded }](p); ok {
		return g.guard()
	}
	return nil
}

func (g *guarded) guard() *guarded { return g }
