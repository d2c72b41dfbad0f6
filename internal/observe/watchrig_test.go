package observe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// watched is a provider whose backend tells what the test says.
type watched struct {
	provider.Provider
	changes chan provider.Change // made inside the bubble
	begun   atomic.Int32
	ended   atomic.Int32
	// last, where set, is what a watch still does once it is to end.
	last func(tell func(provider.Change))
}

func (w *watched) Watch(ctx context.Context, tell func(provider.Change)) {
	w.begun.Add(1)
	defer w.ended.Add(1)
	for {
		select {
		case <-ctx.Done():
			if w.last != nil {
				w.last(tell)
			}
			return
		case c := <-w.changes:
			tell(c)
		}
	}
}

// watched makes the entry one that can be watched.
func (x *rig) watched(entry string) *watched {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.entries {
		if x.entries[i].Name == entry {
			w := &watched{Provider: x.entries[i].Provider, changes: make(chan provider.Change)}
			x.entries[i].Provider = w
			return w
		}
	}
	x.t.Fatalf("no entry %s", entry)
	return nil
}

// watching runs test on a rig whose provider cloud is watched and whose lists do not come back unless listed: whatever
// happens, happens because it was told.
func watching(t *testing.T, listed bool, test func(t *testing.T, x *rig, w *watched)) {
	t.Helper()
	observing(t, callTimeout, func(t *testing.T, x *rig) {
		w := x.watched("cloud")
		if !listed {
			x.backends["cloud"].OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
				if op == providertest.OpList {
					f.Hold = make(chan struct{})
				}
				return f
			})
		}
		test(t, x, w)
		x.stop()
		if b, e := w.begun.Load(), w.ended.Load(); b != e {
			t.Errorf("Start has returned, %d watches began and %d ended", b, e)
		}
	})
}

// tell returns once what is told has been taken in.
func (w *watched) tell(inst provider.Instance, change ...func(*provider.Instance)) {
	for _, f := range change {
		f(&inst)
	}
	w.changes <- provider.Change{Instance: inst}
	synctest.Wait()
}

func (w *watched) tellGone(inst provider.Instance, change ...func(*provider.Instance)) {
	for _, f := range change {
		f(&inst)
	}
	w.changes <- provider.Change{Instance: inst, Gone: true}
	synctest.Wait()
}

// instance is p's as the backend shows it.
func (x *rig) instance(p *fleet.Proxy) provider.Instance {
	x.t.Helper()
	of := x.backends[p.Provider].Provider(p.Provider, owner, provider.Window{CallTimeout: callTimeout})
	inst, err := of.Get(x.t.Context(), provider.Ref{ID: p.ProviderID, UID: p.UID, Attempt: p.Attempt, RequestedAt: time.Now()})
	x.must(err)
	return *inst
}

func in(s provider.State) func(*provider.Instance) {
	return func(i *provider.Instance) {
		if i.State = s; s != provider.StateRunning {
			i.IP, i.Port, i.ExitAddress = "", 0, ""
		}
	}
}

func movedTo(ip string) func(*provider.Instance) { return func(i *provider.Instance) { i.IP = ip } }

func ofAttempt(n int64) func(*provider.Instance) {
	return func(i *provider.Instance) { i.Marks.Attempt = n }
}

// wantGone checks whether p's address is withdrawn.
func (x *rig) wantGone(when string, p *fleet.Proxy, want bool) {
	x.t.Helper()
	now := x.store.Get(p.Key)
	if now.Gone != want || now.Probeable() == want {
		x.t.Errorf("%s: gone %v, probeable %v; want gone %v", when, now.Gone, now.Probeable(), want)
	}
}
