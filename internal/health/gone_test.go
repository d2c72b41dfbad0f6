package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// gone tells the store what a backend told of a.
func (r *rig) gone(is bool) {
	r.t.Helper()
	if p := r.store.Get(keyOf("a")); !r.store.SetGone(p.Key, p.Instance(), is) {
		r.t.Fatal("the mark was not taken")
	}
}

func (r *rig) withheld(when string, want fleet.Withheld) {
	r.t.Helper()
	if got := r.store.Get(keyOf("a")).Withheld(); got != want {
		r.t.Errorf("%s: withheld as %q, want %q", when, got, want)
	}
}

func guarded(p *fleet.Proxy) {
	p.Credentials = &provider.Credentials{Username: "u", Password: "p", Revision: "r1"}
}

// TestNothingIsSentToWhatIsGone: another may have its address by now, and would be handed the credentials.
func TestNothingIsSentToWhatIsGone(t *testing.T) {
	for _, tc := range []struct {
		name string
		// late is the answer of the probe that is under way when the instance goes.
		late Result
	}{
		{"a late success", good(time.Millisecond)},
		{"a late failure", bad(v1alpha1.ReasonTimeout)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			underTest(t, nil, func(r *rig) {
				r.store.Apply(proxy("a", guarded, reported(fleet.Healthy)))
				r.start()
				r.withheld("as the status says", fleet.WithheldNot)
				r.pass(11 * time.Second)
				late := r.take()
				if late.target.Credentials == nil {
					t.Fatal("probed without credentials")
				}
				r.gone(true)
				synctest.Wait()
				r.expect("a Unknown ") // the status does not say so yet
				r.end(late, tc.late)
				r.pass(10 * time.Minute)
				r.idle()
				r.expect()
				r.withheld("gone", fleet.WithheldGone)
				if v, ok := r.engine.Verdict(keyOf("a")); !ok || v.Reason != v1alpha1.ReasonNotProbed || v.Subject != (fleet.Subject{}) {
					t.Errorf("the verdict is %+v", v)
				}

				r.gone(false)
				r.withheld("back", fleet.WithheldUnprobed)
				r.pass(time.Second)
				again := r.take() // at once, although it would not have been due
				if again.target.Credentials == nil || again.target.Endpoint != late.target.Endpoint {
					t.Errorf("probed %+v", again.target)
				}
				r.end(again, good(time.Millisecond))
				r.withheld("back and probed", fleet.WithheldNot)
				r.pass(11 * time.Second)
				r.end(r.take(), good(time.Millisecond))
				if r.health("a") != fleet.Healthy {
					t.Error("not healthy")
				}
			})
		})
	}
}

// TestWhatWasGoneForAMomentIsProbedAnew: the engine sees both changes as one, and a probe from before proves nothing.
func TestWhatWasGoneForAMomentIsProbedAnew(t *testing.T) {
	underTest(t, nil, func(r *rig) {
		r.store.Apply(proxy("a", guarded))
		r.start()
		r.end(r.take(), good(time.Millisecond))
		r.pass(11 * time.Second)
		late := r.take()
		r.gone(true)
		r.gone(false)
		r.pass(time.Second)
		r.withheld("before it is probed", fleet.WithheldUnprobed)
		r.end(late, good(time.Millisecond))
		r.withheld("after the late verdict", fleet.WithheldUnprobed)
		r.end(r.take(), good(time.Millisecond))
		r.withheld("after its own", fleet.WithheldNot)
	})
}
