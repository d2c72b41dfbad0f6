package proxy_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func clientKey(p *v1alpha1.Proxy) types.NamespacedName { return client.ObjectKeyFromObject(p) }

func gone(p *v1alpha1.Proxy) bool { return p == nil }

func TestDeletionReleasesOnlyWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		for name, when := range map[string]func(x *rig, key types.NamespacedName){
			"before the first pass":     func(*rig, types.NamespacedName) {},
			"during creation":           func(x *rig, key types.NamespacedName) { x.pass(key) },
			"while it boots":            func(x *rig, key types.NamespacedName) { x.pass(key); x.step(12 * time.Second); x.pass(key) },
			"when it runs":              func(x *rig, key types.NamespacedName) { x.untilRunning(key) },
			"when it stopped by itself": func(x *rig, key types.NamespacedName) { x.backend.Stop(x.untilRunning(key).Status.ProviderID, "") },
			"after a restart":           func(x *rig, key types.NamespacedName) { x.untilRunning(key); x.restart() },
		} {
			t.Run(name, func(t *testing.T) {
				x := newRig(t, kind, providertest.BackendOptions{CreateDelay: 10 * time.Second, BootDelay: 5 * time.Second, DeleteDelay: 7 * time.Second})
				key := x.managed("a")
				when(x, key)
				x.delete(key)
				for range 200 {
					if x.get(key) == nil {
						break
					}
					x.pass(key)
					if x.get(key) == nil && x.instances() != 0 {
						t.Fatalf("released while the backend still has %+v", x.backend.Instances())
					}
					x.step(time.Second)
				}
				if x.get(key) != nil {
					t.Fatalf("not released: %+v", provisioned(x.get(key)))
				}
				x.step(10 * time.Minute) // nothing comes late
				if n := x.instances(); n != 0 {
					t.Fatalf("%d instances left: %+v", n, x.backend.Instances())
				}
			})
		}
	})
}

func TestADeletionThatMeetsErrorsStaysVisibleAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]error{
		"transient": provider.ErrTransient, "permanent": provider.ErrPermanent, "denied": provider.ErrDenied, "quota": provider.ErrQuotaExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			x.untilRunning(key)
			x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
				if op == providertest.OpDelete {
					return providertest.Fault{Err: errors.Join(errors.New("the backend says no"), class)}
				}
				return providertest.Fault{}
			})
			x.delete(key)
			for range 20 {
				res := x.pass(key)
				if res.RequeueAfter <= 0 || res.RequeueAfter > 11*time.Minute {
					t.Fatalf("the next try is in %s", res.RequeueAfter)
				}
				x.step(res.RequeueAfter)
			}
			p := x.get(key)
			if p == nil {
				t.Fatal("released although the instance could not be deleted")
			}
			if c := provisioned(p); c.Reason != v1alpha1.ReasonDeleting || p.Status.Phase != v1alpha1.PhaseDeleting || c.Message == "" {
				t.Fatalf("phase %s condition %+v", p.Status.Phase, c)
			}
			x.backend.OnCall(nil)
			x.until(key, "gone", gone)
			if x.instances() != 0 {
				t.Fatal("an instance is left")
			}
		})
	}
}

// TestADeletionIsNotReleasedByAnError: whatever goes wrong with the look at the instance, it proves nothing.
func TestADeletionIsNotReleasedByAnError(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]error{
		"transient": provider.ErrTransient, "permanent": provider.ErrPermanent, "denied": provider.ErrDenied, "quota": provider.ErrQuotaExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindName, providertest.BackendOptions{})
			key := x.managed("a")
			x.untilRunning(key)
			x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
				switch op {
				case providertest.OpGet:
					return providertest.Fault{Err: errors.Join(errors.New("cannot tell"), class)}
				case providertest.OpList: // an empty list is no proof either
					x.backend.SetUnread("zone-a", true)
				}
				return providertest.Fault{}
			})
			x.delete(key)
			for range 20 {
				x.step(x.pass(key).RequeueAfter)
			}
			if p := x.get(key); p == nil || x.instances() != 1 || p.Status.Phase != v1alpha1.PhaseDeleting {
				t.Fatalf("object %v, %d instances", p, x.instances())
			}
		})
	}
}

func TestReleaseWaitsForAnotherInstanceOfTheSameUID(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{DeleteDelay: 10 * time.Second})
	key := x.managed("a")
	p := x.untilRunning(key)
	marks := provider.Marks{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Installation: "mine", Cluster: "here", Spec: "v1-0000000000000000", Attempt: 7,
	}
	x.backend.Place("zones/zone-b/instances/"+provider.NameFromUID(string(p.UID)), marks.ToMap(), 3128)
	x.delete(key)
	x.until(key, "gone", gone)
	if x.instances() != 0 {
		t.Fatalf("left: %+v", x.backend.Instances())
	}
}

// TestReleaseDoesNotWaitForAClone: a copy that somebody made of the instance goes on when the Proxy is deleted.
func TestReleaseDoesNotWaitForAClone(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{DeleteDelay: 10 * time.Second})
		key := x.managed("a")
		p := x.untilRunning(key)
		id := p.Status.ProviderID + "-1"
		x.clone(p, id)
		x.delete(key)
		x.until(key, "gone", gone)
		if left := x.backend.Instances(); len(left) != 1 || left[0].ID != id || len(left[0].Parts) != 2 || left[0].Deleting {
			t.Fatalf("left %+v, want the clone alone", left)
		}
	})
}

func TestSkipCleanupReleasesWithoutTouchingTheBackend(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.untilRunning(key)
	x.edit(key, func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationSkipCleanup: "true"} })
	x.delete(key)
	x.pass(key)
	if x.get(key) != nil || x.instances() != 1 || x.backend.Calls(providertest.OpDelete) != 0 {
		t.Fatalf("object %v, %d instances", x.get(key), x.instances())
	}
}

func TestAnotherAttemptUnderTheRecordedID(t *testing.T) {
	for name, c := range map[string]struct {
		found   int64
		removed bool
	}{
		"older is removed":                      {1, true},
		"newer is taken over after a live look": {9, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, providertest.KindName, providertest.BackendOptions{})
			key := x.managed("a")
			p := x.untilRunning(key)
			mark := "v9-0000000000000000" // of a newer operator: it counts as desired
			x.backend.Vanish(p.Status.ProviderID)
			marks := provider.Marks{
				UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Installation: "mine", Cluster: "here", Spec: mark, Attempt: c.found,
			}
			if c.removed {
				p.Status.Instance.Attempt = 2
				must(t, x.client.Status().Update(t.Context(), p))
			}
			identity := x.backend.Place(p.Status.ProviderID, marks.ToMap(), 3128)
			for range 200 {
				x.pass(key)
				x.step(time.Second)
			}
			left := x.backend.Instances()
			if len(left) != 1 || (left[0].Identity == identity) == c.removed {
				t.Fatalf("left %+v, placed %s", left, identity)
			}
			if got := x.get(key).Status.Instance.Attempt; !c.removed && got != c.found {
				t.Fatalf("the record says attempt %d, the instance is %d", got, c.found)
			}
		})
	}
}
