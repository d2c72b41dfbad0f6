package instrument_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

func drained(r *instrument.Retirement) bool {
	select {
	case <-r.Drained():
		return true
	default:
		return false
	}
}

func TestARetiredProviderLetsNoNewCallThrough(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		_ = get(t, p, "a/x")
		ctx, end := instrument.WithPass(t.Context())
		if err := instrument.Reserve(ctx, p, ref("a/x")); err != nil {
			t.Fatal(err)
		}
		r := instrument.Retire(p)
		before := z.made("a") + z.made("b") + z.made("list")
		u, _ := instrument.As[provider.CredentialUpdater](p)
		_, planErr := p.Plan(t.Context(), provider.CreateRequest{})
		for what, err := range map[string]error{
			"get": get(t, p, "a/x"), "get elsewhere": get(t, p, "b/x"), "delete": p.Delete(t.Context(), ref("a/x")), "list": list(t, p),
			"create": p.Create(t.Context(), provider.CreateRequest{}, ref("a/x")), "reserve": reserve(t, p, "a/x"), "plan": planErr,
			"update": u.UpdateCredentials(t.Context(), ref("a/x"), provider.Credentials{}),
		} {
			expectReason(t, what, err, provider.ReasonBusy)
			if want := "the provider entry is being replaced"; err == nil || provider.Cause(err) != want {
				t.Errorf("%s = %v, want %q", what, err, want)
			}
		}
		if n := z.made("a") + z.made("b") + z.made("list") - before; n != 0 {
			t.Errorf("%d calls reached a retired provider", n)
		}
		// A pass that holds a place goes on to its end, whatever it calls.
		if err := p.Create(ctx, provider.CreateRequest{}, ref("a/x")); err != nil {
			t.Errorf("Create in the pass = %v", err)
		}
		if _, err := p.ListByTag(ctx); err != nil {
			t.Errorf("ListByTag in the pass = %v", err)
		}
		if err := p.Delete(ctx, ref("b/x")); err != nil {
			t.Errorf("Delete elsewhere in the pass = %v", err)
		}
		if _, err := p.Plan(ctx, provider.CreateRequest{}); err != nil {
			t.Errorf("Plan in the pass = %v", err)
		}
		if drained(r) {
			t.Error("drained while a pass holds a place")
		}
		end()
		if !drained(r) {
			t.Error("not drained although nobody is left")
		}
		r.Resume()
		r.Resume()
		expectReason(t, "get after all", get(t, p, "a/x"), "")

		first, second := instrument.Retire(p), instrument.Retire(p)
		if !drained(first) || !drained(second) {
			t.Error("not drained although nobody was there")
		}
		first.Resume()
		expectReason(t, "under the second retirement", get(t, p, "a/x"), provider.ReasonBusy)
		second.Resume()
		expectReason(t, "after both", get(t, p, "a/x"), "")
	})
}

func TestARetirementWaitsForCallsInFlight(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, p provider.Provider){
		"get":  func(ctx context.Context, p provider.Provider) { _, _ = p.Get(ctx, ref("a/x")) },
		"list": func(ctx context.Context, p provider.Provider) { _, _ = p.ListByTag(ctx) },
		"plan": func(ctx context.Context, p provider.Provider) { _, _ = p.Plan(ctx, provider.CreateRequest{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
				p := instrument.WithGuard(slowPlans{z}, "exits", clock.RealClock{})
				releases := []func(){z.hold("a"), z.hold("list"), z.hold("plan")}
				var wg sync.WaitGroup
				wg.Go(func() { call(t.Context(), p) })
				synctest.Wait()
				r := instrument.Retire(p)
				if drained(r) {
					t.Error("drained while the call is in flight")
				}
				for _, release := range releases {
					release()
				}
				wg.Wait()
				if !drained(r) {
					t.Error("not drained although it has ended")
				}
			})
		})
	}
}

// slowPlans is zoned with plans that can be held, too.
type slowPlans struct{ *zoned }

func (p slowPlans) Plan(ctx context.Context, _ provider.CreateRequest) (string, error) {
	return "a/x", p.call(ctx, "plan")
}

func TestWithoutAGuardARetirementIsOverAtOnce(t *testing.T) {
	r := instrument.Retire(newPlain(nil))
	if !drained(r) {
		t.Error("not drained")
	}
	r.Resume()
}

// After Drained no intent is written any more: the place for it is taken before.
func TestNoIntentAppearsAfterTheDrain(t *testing.T) {
	for range 50 {
		p := instrument.WithGuard(newPlain(nil), "exits", clock.RealClock{})
		var over atomic.Bool
		var late, intents atomic.Int64
		var wg sync.WaitGroup
		stop, started := make(chan struct{}), make(chan struct{}, 1)
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, end := instrument.WithPass(t.Context())
					if _, err := p.Plan(ctx, provider.CreateRequest{}); err == nil && instrument.Reserve(ctx, p, ref("a/x")) == nil {
						if intents.Add(1); over.Load() {
							late.Add(1)
						}
						_ = p.Create(ctx, provider.CreateRequest{}, ref("a/x"))
						select {
						case started <- struct{}{}:
						default:
						}
					}
					end()
				}
			})
		}
		<-started
		r := instrument.Retire(p)
		<-r.Drained()
		over.Store(true)
		close(stop)
		wg.Wait()
		if late.Load() > 0 {
			t.Fatalf("%d of %d intents after the drain", late.Load(), intents.Load())
		}
	}
}
