package proxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// stale is a cache that stopped at one moment: it answers reads of a Proxy with an old copy.
type stale struct {
	client.Client
	old *v1alpha1.Proxy
}

func (s *stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	p, ok := obj.(*v1alpha1.Proxy)
	if !ok || s.old == nil {
		return s.Client.Get(ctx, key, obj, opts...)
	}
	s.old.DeepCopyInto(p)
	return nil
}

// TestAStaleCacheNeverCreatesNorDeletes freezes the cache at each stage of a Proxy's life, lets life go on, and then
// runs passes of a second process that sees only the frozen copy.
func TestAStaleCacheNeverCreatesNorDeletes(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		for name, frozen := range map[string]func(x *rig, p *v1alpha1.Proxy) *v1alpha1.Proxy{
			"before the first pass":   func(_ *rig, p *v1alpha1.Proxy) *v1alpha1.Proxy { return p },
			"after the first attempt": func(x *rig, p *v1alpha1.Proxy) *v1alpha1.Proxy { x.pass(clientKey(p)); return x.get(clientKey(p)) },
			"when attempt 1 ran":      func(x *rig, p *v1alpha1.Proxy) *v1alpha1.Proxy { return x.untilRunning(clientKey(p)) },
		} {
			t.Run(name, func(t *testing.T) {
				x := newRig(t, kind, providertest.BackendOptions{})
				key := x.managed("a")
				old := frozen(x, x.get(key))
				p := x.untilRunning(key)
				x.backend.Vanish(p.Status.ProviderID)
				x.until(key, "attempt 2", func(p *v1alpha1.Proxy) bool { return p.Status.Instance.Attempt == 2 && p.Status.IP != "" })
				want := x.backend.Instances()
				creates, deletes := x.backend.Calls(providertest.OpCreate), x.backend.Calls(providertest.OpDelete)

				fresh := x.r.Client
				x.restart()
				x.r.Client = &stale{Client: fresh, old: old}
				for range 100 {
					x.pass(key)
					x.step(time.Second)
				}
				if got := x.backend.Instances(); len(got) != 1 || got[0].Identity != want[0].Identity {
					t.Fatalf("instances %+v, want %+v", got, want)
				}
				if c, d := x.backend.Calls(providertest.OpCreate), x.backend.Calls(providertest.OpDelete); c != creates || d != deletes {
					t.Fatalf("%d creations and %d deletions were sent on a stale read", c-creates, d-deletes)
				}
			})
		}
	})
}

// TestAWriteInBetweenDropsThePass changes the object while a pass is asking the backend: what the pass saw is old then.
func TestAWriteInBetweenDropsThePass(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.backend.Stop(p.Status.ProviderID, "")
	once := true
	x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
		if op == providertest.OpGet && once {
			once = false
			x.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Cordoned = true })
		}
		return providertest.Fault{}
	})
	x.pass(key)
	if once {
		t.Fatal("the pass did not look at the backend")
	}
	if n := x.backend.Calls(providertest.OpDelete); n != 0 {
		t.Fatalf("%d deletions although the object changed under the pass", n)
	}
	x.untilRunning(key)
}

// TestACrashAtEachCallConverges ends the process before each backend call of a life and after it without its answer.
func TestACrashAtEachCallConverges(t *testing.T) {
	t.Parallel()
	type crash struct{}
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		for _, applied := range []bool{false, true} {
			for at := range 12 {
				x := newRig(t, kind, providertest.BackendOptions{BootDelay: time.Second})
				key := x.managed("a")
				n, crashed := 0, false
				x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
					if n++; n-1 != at {
						return providertest.Fault{}
					}
					if applied {
						return providertest.Fault{Applied: true, Err: errors.New("the answer got lost")}
					}
					panic(crash{})
				})
				pass := func() {
					defer func() {
						if r := recover(); r != nil {
							if _, ok := r.(crash); !ok {
								panic(r)
							}
						}
						if n > at && !crashed {
							crashed = true
							x.restart()
						}
					}()
					x.pass(key)
				}
				for i := range 300 {
					if i == 20 {
						if p := x.get(key); p != nil && p.Status.ProviderID != "" {
							x.backend.Stop(p.Status.ProviderID, "")
						}
					}
					if i == 150 {
						if got := x.instances(); got != 1 {
							t.Fatalf("crash at call %d (applied %t): %d instances for a living Proxy", at, applied, got)
						}
						x.delete(key)
					}
					pass()
					x.step(time.Second)
				}
				if x.get(key) != nil || x.instances() != 0 {
					t.Fatalf("crash at call %d (applied %t): object gone %t, %d instances left", at, applied, x.get(key) == nil, x.instances())
				}
			}
		}
	})
}
