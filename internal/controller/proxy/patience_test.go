package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// A wait that the backend asked for holds whatever is edited meanwhile.
func TestEditsDoNotCutAnAskedWaitShort(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{})
		key := x.managed("a")
		creates := 0
		x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
			if op == providertest.OpCreate {
				creates++
				f.Err, f.RetryAfter = errors.New("slow down"), time.Hour
			}
			return f
		})
		for i := range 60 {
			x.edit(key, func(p *v1alpha1.Proxy) { p.Spec.Cordoned = i%2 == 0 })
			x.pass(key)
			x.step(10 * time.Second)
		}
		if creates != 1 {
			t.Errorf("%d creations within ten minutes, asked to wait for an hour", creates)
		}
	})
}

func TestLongReplaceValuesAreToldApart(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	x.heal(x.untilRunning(key))
	long := strings.Repeat("x", 3000)
	for i, value := range []string{long + "1", long + "2"} {
		x.edit(key, func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationReplace: value} })
		p := x.until(key, "the next instance runs", func(p *v1alpha1.Proxy) bool {
			return p.Status.Instance.Attempt == int64(i+2) && p.Status.IP != ""
		})
		x.heal(p)
		x.pass(key)
	}
}

// An error that passes says less of a Proxy than what is known of it, and a reason that flips is an Event each time.
func TestAPassingErrorLeavesTheReason(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	keys := fleetOf(x, 2)
	for _, key := range keys {
		x.backend.Stop(x.get(key).Status.ProviderID, "")
	}
	x.pass(keys[0]) // takes the only place
	x.pass(keys[1])
	if got := reason(x.get(keys[1])); got != v1alpha1.ReasonReplacing {
		t.Fatalf("the one that waits says %s", got)
	}
	events := len(x.events.all())
	for i := range 10 {
		x.backend.SetUnread("zone-a", i%2 == 0)
		x.step(15 * time.Second)
		x.pass(keys[1])
		if got := reason(x.get(keys[1])); got != v1alpha1.ReasonReplacing {
			t.Errorf("pass %d: %s", i, got)
		}
	}
	if n := len(x.events.all()) - events; n > 0 {
		t.Errorf("%d events: %q", n, x.events.all()[events:])
	}
}

// A place that another zone lacks at the moment is no failure of a deletion.
func TestABusyZoneIsNoFailureOfARelease(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	zones := zonedProvider{x.entries[x.entry].Provider}
	x.entries[x.entry] = registry.Handle{Name: x.entry, Revision: "1", Provider: instrument.WithGuard(zones, x.entry, x.clock)}
	key := x.managed("a", func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-a"} })
	p := x.untilRunning(key)
	m := provider.Marks{UID: string(p.UID), Namespace: x.ns, Name: "a", Installation: "mine", Cluster: "here", Spec: "v1-0", Attempt: 7}
	x.backend.Place("zones/zone-b/instances/"+provider.NameFromUID(string(p.UID)), m.ToMap(), 3128)
	ctx, end := instrument.WithPass(t.Context())
	must(t, instrument.Reserve(ctx, x.entries[x.entry].Provider, provider.Ref{ID: "zones/zone-b/instances/other"}))
	x.delete(key)
	for range 100 {
		res := x.pass(key)
		if p := x.get(key); p == nil || strings.Contains(provisioned(p).Message, "failed") || res.RequeueAfter > 12*time.Second {
			t.Fatalf("again after %s: %+v", res.RequeueAfter, p)
		}
		x.step(time.Second)
	}
	end()
	x.until(key, "gone", gone)
	if n := x.instances(); n != 0 {
		t.Errorf("%d instances are left", n)
	}
}

// What made a creation fail says more than that its rest is being removed, for as long as it holds the next attempt back.
func TestAFailureThatLeavesPartsKeepsItsReason(t *testing.T) {
	t.Parallel()
	for class, want := range map[error]string{
		provider.ErrPermanent: v1alpha1.ReasonPermanentError, provider.ErrQuotaExceeded: v1alpha1.ReasonQuotaExceeded,
	} {
		x := newRig(t, providertest.KindGCP, providertest.BackendOptions{DeleteDelay: 30 * time.Second})
		key := x.managed("a")
		x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
			if op == providertest.OpCreate {
				f.FailLate, f.LeaveParts = class, true
			}
			return f
		})
		x.until(key, "the failure shows", func(p *v1alpha1.Proxy) bool { return reason(p) == want })
		for range 20 {
			x.step(5 * time.Second)
			x.pass(key)
			if p := x.get(key); reason(p) != want || p.Status.Instance.Attempt != 1 {
				t.Fatalf("%s after %s was seen, attempt %d", reason(p), want, p.Status.Instance.Attempt)
			}
		}
		if left := x.backend.Instances(); len(left) != 0 {
			t.Errorf("%s: left is %v", want, left)
		}
	}
}
