package proxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// relabelling is a provider whose instances all are in one state while that is set.
type relabelling struct {
	provider.Provider
	state provider.State
}

func (r *relabelling) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	inst, err := r.Provider.Get(ctx, ref)
	if err == nil && r.state != "" && inst.State == provider.StateRunning {
		inst.State, inst.IP = r.state, ""
		if inst.Left = r.state == provider.StateFailed; inst.Left {
			inst.Err = provider.Wrap(provider.ErrTransient, "create", "", ref.ID, errors.New("evicted"))
		}
	}
	return inst, err
}

// A backend that reboots or evicts everything at once must not be answered by deleting everything at once.
func TestWhatServedIsGivenUpWithinTheBudget(t *testing.T) {
	t.Parallel()
	for _, state := range []provider.State{provider.StateProvisioning, provider.StateFailed} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			h := x.entries[x.entry]
			p := &relabelling{Provider: h.Provider}
			h.Provider = p
			x.entries[x.entry] = h
			keys := fleetOf(x, 10)
			x.step(time.Hour)
			p.state = state
			deletes := func() int { return x.backend.Calls(providertest.OpDelete) }
			before := deletes()
			for _, key := range keys {
				x.pass(key)
			}
			if state == provider.StateProvisioning {
				if n := deletes(); n != before {
					t.Errorf("%d deletions as soon as the instances boot again: they have 15 minutes", n-before)
				}
				x.step(16 * time.Minute)
			}
			for range 5 {
				for _, key := range keys {
					x.pass(key)
				}
				x.step(time.Second)
			}
			if n, limit := x.Count("").Replacing, 1; n > limit {
				t.Errorf("%d are being replaced, at most %d may", n, limit)
			}
			if n := x.instances(); n < 9 {
				t.Errorf("%d instances are left of 10", n)
			}
			p.state = ""
			for _, key := range keys {
				x.heal(x.untilRunning(key))
				x.pass(key)
			}
		})
	}
}

func TestAnEditToWhatCannotBeMadeStopsADrain(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.heal(x.untilRunning(key))
	x.leases.hold(1)
	x.edit(key, toPort(8080))
	x.until(key, "draining", func(p *v1alpha1.Proxy) bool { return reason(p) == v1alpha1.ReasonDraining })
	x.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-typo"} })
	for range 200 {
		x.pass(key)
		x.step(time.Second)
	}
	p := x.get(key)
	if c := provisioned(p); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonUpdateBlocked || x.instances() != 1 {
		t.Errorf("%+v with %d instances", c, x.instances())
	}
	if p.Status.ReplacingSince != nil || p.Status.DrainingSince != nil || len(x.leases.readmitted) == 0 {
		t.Errorf("it still holds its place or is withdrawn: %+v", p.Status)
	}
}

func TestRepeatedFailuresBackOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op      string
		prepare func(x *rig, p *v1alpha1.Proxy)
	}{
		"removing a stray": {providertest.OpDelete, func(x *rig, p *v1alpha1.Proxy) {
			m := provider.Marks{UID: string(p.UID), Namespace: x.ns, Name: p.Name, Installation: "mine", Cluster: "here", Spec: "v1-0", Attempt: 7}
			id := "zones/zone-b/instances/" + provider.NameFromUID(string(p.UID))
			x.strays = map[string][]provider.Instance{string(p.UID): {
				{ID: id, Identity: x.backend.Place(id, m.ToMap(), 3128), Marks: m, State: provider.StateRunning},
			}}
		}},
		"deleting": {providertest.OpDelete, func(x *rig, p *v1alpha1.Proxy) { x.delete(clientKey(p)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			p := x.untilRunning(key)
			tc.prepare(x, p)
			calls := 0
			x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
				if op == tc.op {
					calls++
					f.Err = errors.New("no")
				}
				return f
			})
			for end := x.clock.Now().Add(time.Hour); x.clock.Now().Before(end); {
				x.step(max(x.pass(key).RequeueAfter, 50*time.Millisecond))
			}
			if calls < 3 || calls > 30 {
				t.Errorf("%d calls in an hour", calls)
			}
		})
	}
}

func TestAProxyThatCannotGoOnLeavesItsPlaceUnderMaxInstances(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	h := x.entries[x.entry]
	h.MaxInstances = 1
	x.entries[x.entry] = h
	x.guarded()
	s := x.secret("ci", v1alpha1.LabelCloudInit, corev1.SecretTypeOpaque, map[string]string{"user-data": "x"})
	a := x.managed("a", func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "ci"}}
	})
	free := x.crowd()
	x.pass(a) // the target is busy
	free()
	must(t, x.client.Delete(t.Context(), s))
	x.pass(a)
	x.untilRunning(x.managed("b"))
}

func TestADeletionIsToldAlthoughTheBackendAskedToWait(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.heal(x.untilRunning(key))
	x.pass(key)
	asked := true
	x.backend.OnCall(func(string, provider.Ref) (f providertest.Fault) {
		if asked {
			f.Err, f.RetryAfter = errors.New("slow down"), time.Hour
		}
		return f
	})
	x.pass(key)
	asked = false
	x.delete(key)
	x.pass(key)
	p := x.get(key)
	if p.Status.Phase != v1alpha1.PhaseDeleting || provisioned(p).Status != metav1.ConditionFalse || len(x.leases.withdrawn) == 0 {
		t.Errorf("still on offer: %+v, leases withdrawn %d", p.Status, len(x.leases.withdrawn))
	}
	calls := x.backend.Calls(providertest.OpGet)
	x.pass(key)
	if n := x.backend.Calls(providertest.OpGet); n != calls {
		t.Errorf("%d calls although the backend asked to wait", n-calls)
	}
	x.step(71 * time.Minute)
	x.until(key, "gone", gone)
}

func TestADeletedProxyGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	keys := fleetOf(x, 2)
	x.leases.hold(1)
	x.edit(keys[0], toPort(8080))
	x.until(keys[0], "holds the place", func(p *v1alpha1.Proxy) bool { return p.Status.ReplacingSince != nil })
	x.edit(keys[1], toPort(8080))
	x.pass(keys[1])
	down := x.get(keys[0]).Status.ProviderID
	x.backend.OnCall(func(_ string, ref provider.Ref) (f providertest.Fault) {
		if ref.ID == down {
			f.Err = errors.New("the host is gone for good")
		}
		return f
	})
	x.delete(keys[0])
	x.pass(keys[0])
	x.leases.hold(0)
	x.until(keys[1], "its turn", func(p *v1alpha1.Proxy) bool { return p.Status.Instance.Attempt == 2 })
}

func TestEditsDoNotMakeABackoffLonger(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.backend.Vanish(p.Status.ProviderID)
	x.backend.Place(p.Status.ProviderID, map[string]string{"owner": "somebody"}, 3128)
	for i := range 12 {
		x.edit(key, func(p *v1alpha1.Proxy) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "example.com/edit", time.Duration(i).String())
		})
		if res := x.pass(key); res.RequeueAfter > 12*time.Minute {
			t.Fatalf("after edit %d the next look is in %s", i, res.RequeueAfter)
		}
		x.step(time.Second)
	}
}

// What a Proxy of the same name was told to wait for does not bind its successor.
func TestASuccessorDoesNotInheritAWait(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.untilRunning(key)
	x.backend.OnCall(func(string, provider.Ref) (f providertest.Fault) {
		f.Err, f.RetryAfter = errors.New("slow down"), time.Hour
		return f
	})
	x.pass(key)
	x.backend.OnCall(nil)
	x.edit(key, func(p *v1alpha1.Proxy) { p.Finalizers = nil })
	must(t, client.IgnoreNotFound(x.client.Delete(t.Context(), x.get(key))))
	again := x.managed("a")
	x.step(window)
	for range 60 {
		if p := x.get(again); p.Status.IP != "" {
			return
		}
		x.pass(again)
		x.step(time.Second)
	}
	t.Errorf("not running after a minute: %+v", x.get(again).Status)
}
