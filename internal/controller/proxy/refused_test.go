package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// counting counts the writes of statuses.
type counting struct {
	client.Client
	n *int
}

func (c counting) Status() client.SubResourceWriter {
	return countingWriter{c.Client.Status(), c.n}
}

type countingWriter struct {
	client.SubResourceWriter
	n *int
}

func (w countingWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	*w.n++
	return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// counted counts the statuses that the reconciler writes from now on.
func (x *rig) counted() *int {
	n := new(int)
	x.r.Client = counting{x.client, n}
	return n
}

// run runs passes over key for d as a manager does: when a pass asks for the next, and at once after a write to the Proxy,
// its own included. It fails a Proxy that does not come to rest.
func (x *rig) run(key types.NamespacedName, d time.Duration) {
	x.t.Helper()
	end := x.clock.Now().Add(d)
	version, passes := "", 0
	for x.clock.Now().Before(end) {
		if passes++; passes > 2000 {
			x.t.Fatalf("2000 passes, %s before the end: %+v", end.Sub(x.clock.Now()), provisioned(x.get(key)))
		}
		res := x.pass(key)
		p := x.get(key)
		if p == nil {
			return
		}
		if p.ResourceVersion != version {
			version = p.ResourceVersion
			continue
		}
		wait := end.Sub(x.clock.Now())
		if res.RequeueAfter > 0 {
			wait = min(wait, res.RequeueAfter)
		}
		x.step(wait)
	}
}

// refuse makes the backend refuse every deletion, for a reason, until it is called.
func (x *rig) refuse(f func() error) (accept func()) {
	x.backend.OnCall(func(op string, _ provider.Ref) (out providertest.Fault) {
		if op == providertest.OpDelete {
			out.Err = f()
		}
		return out
	})
	return func() { x.backend.OnCall(nil) }
}

func refusals() map[string]error {
	return map[string]error{
		"403 permanent": provider.Wrap(provider.ErrPermanent, "delete", "", "", errors.New("403 the right to delete is missing")),
		"403 denied":    provider.Wrap(provider.ErrDenied, "delete", "", "", errors.New("403 the right to delete is missing")),
		"400 permanent": provider.Wrap(provider.ErrPermanent, "delete", "", "", errors.New("400 the right to delete is missing")),
		"503 transient": provider.Wrap(provider.ErrTransient, "delete", "", "", errors.New("503 the right to delete is missing")),
	}
}

// told counts the Events that contain text.
func (x *rig) told(text string) (n int) {
	for _, e := range x.events.all() {
		if strings.Contains(e, text) {
			n++
		}
	}
	return n
}

func TestARefusedRemovalIsRetriedWithGrowingWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(x *rig) types.NamespacedName
		// begin is why the instance has to go.
		begin  func(x *rig, p *v1alpha1.Proxy)
		writes int
		after  string
	}{
		"drifted": {settled, func(x *rig, p *v1alpha1.Proxy) { x.edit(clientKey(p), setPort(8080)) }, 3, v1alpha1.ReasonReplacing},
		"asked for": {settled, func(x *rig, p *v1alpha1.Proxy) {
			x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationReplace: "1"} })
		}, 3, v1alpha1.ReasonReplacing},
		"stopped": {settled, func(x *rig, p *v1alpha1.Proxy) { x.backend.Stop(p.Status.ProviderID, "host rebooted") }, 2, v1alpha1.ReasonReplacing},
		"unhealthy": {func(x *rig) types.NamespacedName {
			key := x.managed("a", replaceAfter(time.Minute))
			x.health.say(x.untilRunning(key), fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
			x.pass(key)
			return key
		}, func(x *rig, _ *v1alpha1.Proxy) { x.step(61 * time.Second) }, 3, v1alpha1.ReasonReplacing},
		"never came up": {func(x *rig) types.NamespacedName {
			x.backend.SetBootDelay(24 * time.Hour)
			key := x.managed("a")
			x.run(key, time.Minute)
			return key
		}, func(x *rig, _ *v1alpha1.Proxy) { x.step(15 * time.Minute) }, 2, v1alpha1.ReasonReplacing},
		"deleted": {settled, func(x *rig, p *v1alpha1.Proxy) { x.delete(clientKey(p)) }, 2, v1alpha1.ReasonDeleting},
	} {
		for class, err := range refusals() {
			t.Run(name+"/"+class, func(t *testing.T) {
				t.Parallel()
				x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
				key := c.make(x)
				accept := x.refuse(func() error { return err })
				writes := x.counted()
				c.begin(x, x.get(key))
				x.run(key, 10*time.Minute)
				if n := x.backend.Calls(providertest.OpDelete); n < 8 || n > 11 {
					t.Errorf("%d deletions within ten minutes", n)
				}
				if *writes > c.writes {
					t.Errorf("%d writes within ten minutes, want %d", *writes, c.writes)
				}
				p := x.get(key)
				if got := provisioned(p); got.Reason != c.after || !strings.Contains(got.Message, "removing the instance failed: ") || !strings.Contains(got.Message, "the right to delete is missing") || p.Status.IP != "" {
					t.Errorf("%+v with address %q", got, p.Status.IP)
				}
				if n := x.told("Warning RemovalFailed Delete removing the instance failed: "); n != 1 {
					t.Errorf("told by %d Events: %q", n, x.events.all())
				}
				// The wait has grown to its limit, and stays there.
				calls := x.backend.Calls(providertest.OpDelete)
				x.run(key, 5*time.Hour)
				if n := x.backend.Calls(providertest.OpDelete) - calls; n < 26 || n > 34 {
					t.Errorf("%d deletions in five hours", n)
				}
				if *writes > c.writes {
					t.Errorf("%d writes after five hours, want %d", *writes, c.writes)
				}
				accept()
				x.backend.SetBootDelay(0)
				x.run(key, 15*time.Minute)
				switch p := x.get(key); {
				case c.after == v1alpha1.ReasonDeleting:
					if p != nil || x.instances() != 0 {
						t.Errorf("%d instances, still there: %+v", x.instances(), p)
					}
				case p.Status.Instance.Attempt != 2 || reason(p) != v1alpha1.ReasonCreated || x.instances() != 1:
					t.Errorf("%d instances: %+v", x.instances(), p.Status)
				}
			})
		}
	}
}

// settled makes a Proxy that is Ready.
func settled(x *rig) types.NamespacedName {
	key := x.managed("a")
	x.heal(x.untilRunning(key))
	x.run(key, time.Minute)
	return key
}

// A backend that words each refusal anew does not make more writes than tries.
func TestARefusalThatIsWordedAnewIsToldWhenItIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(x *rig, key types.NamespacedName){
		"replaced": func(x *rig, key types.NamespacedName) { x.edit(key, setPort(8080)) },
		"deleted":  func(x *rig, key types.NamespacedName) { x.delete(key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := settled(x)
			tries := 0
			x.refuse(func() error {
				tries++
				return provider.Wrap(provider.ErrTransient, "delete", "", "", fmt.Errorf("503, request %d", tries))
			})
			writes := x.counted()
			begin(x, key)
			x.run(key, 10*time.Minute)
			if tries > 11 || *writes > 8 {
				t.Errorf("%d tries and %d writes within ten minutes", tries, *writes)
			}
			x.run(key, time.Hour)
			if got := provisioned(x.get(key)).Message; !strings.Contains(got, fmt.Sprintf("request %d", tries)) {
				t.Errorf("after %d tries it says %q", tries, got)
			}
			if n := x.told("RemovalFailed"); n != 1 {
				t.Errorf("%d Events: %q", n, x.events.all())
			}
		})
	}
}

func TestARestartDuringARefusedReplacementWritesNothing(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := settled(x)
	accept := x.refuse(func() error { return refusals()["403 permanent"] })
	x.edit(key, setPort(8080))
	x.run(key, time.Hour)
	x.restart()
	writes, calls := x.counted(), x.backend.Calls(providertest.OpDelete)
	x.run(key, 10*time.Minute)
	if n := x.backend.Calls(providertest.OpDelete) - calls; n < 8 || n > 11 || *writes > 0 {
		t.Errorf("%d deletions and %d writes within ten minutes of a restart", n, *writes)
	}
	accept()
	x.run(key, 15*time.Minute)
	if p := x.get(key); !atAttempt(2)(p) {
		t.Errorf("%+v", p.Status)
	}
}

// A person who has mended something need not wait for ten minutes.
func TestAnEditTriesARefusedRemovalAgainAtOnce(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(x *rig, key types.NamespacedName){
		"spec": func(x *rig, key types.NamespacedName) { x.edit(key, setPort(9090)) },
		"annotation": func(x *rig, key types.NamespacedName) {
			x.edit(key, func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationReplace: "now"} })
		},
		"delete": func(x *rig, key types.NamespacedName) { x.delete(key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := settled(x)
			x.refuse(func() error { return refusals()["403 permanent"] })
			x.edit(key, setPort(8080))
			x.run(key, time.Hour)
			calls := x.backend.Calls(providertest.OpDelete)
			edit(x, key)
			x.run(key, time.Second)
			if n := x.backend.Calls(providertest.OpDelete) - calls; n != 1 {
				t.Errorf("%d tries in the second after the edit", n)
			}
			x.run(key, time.Hour)
			if n := x.backend.Calls(providertest.OpDelete) - calls; n > 8 {
				t.Errorf("%d tries in the hour after the edit: the waits began anew", n)
			}
		})
	}
}

// A look that fails between two tries does not hide for longer than it lasts why the removal does not get on.
func TestAFailingLookDoesNotHideARefusal(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := settled(x)
	x.refuse(func() error { return refusals()["403 permanent"] })
	x.edit(key, setPort(8080))
	x.run(key, time.Hour)
	calls := x.backend.Calls(providertest.OpDelete)
	for wait := time.Duration(0); x.backend.Calls(providertest.OpDelete) == calls; { // right after a try
		x.step(wait)
		wait = x.pass(key).RequeueAfter
	}
	x.step(time.Second)
	x.backend.SetUnread("zone-a", true)
	x.pass(key)
	if got := provisioned(x.get(key)).Message; strings.Contains(got, "removing the instance failed") {
		t.Fatalf("it says %q", got)
	}
	x.backend.SetUnread("zone-a", false)
	calls = x.backend.Calls(providertest.OpDelete)
	x.run(key, 2*time.Minute)
	if got := provisioned(x.get(key)).Message; !strings.Contains(got, "the right to delete is missing") || x.backend.Calls(providertest.OpDelete) != calls {
		t.Errorf("after %d more deletions it says %q", x.backend.Calls(providertest.OpDelete)-calls, got)
	}
	// Nor do looks that fail every other time make a stream of writes.
	looks := 0
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		if op == providertest.OpGet {
			looks++
		}
		if op == providertest.OpDelete || op == providertest.OpGet && looks%2 == 0 {
			f.Err = errors.New("503")
		}
		return f
	})
	writes := x.counted()
	x.run(key, 10*time.Minute)
	if *writes > 35 {
		t.Errorf("%d writes within ten minutes", *writes)
	}
}

// What nobody asks for any more is not removed, however far its replacement had got.
func TestAChangeTakenBackEndsARefusedReplacement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec        []func(*v1alpha1.Proxy)
		begin, undo func(x *rig, p *v1alpha1.Proxy)
	}{
		"drifted": {
			nil, func(x *rig, p *v1alpha1.Proxy) { x.edit(clientKey(p), setPort(8080)) },
			func(x *rig, p *v1alpha1.Proxy) { x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Spec.Port = nil }) },
		},
		"unhealthy": {
			[]func(*v1alpha1.Proxy){replaceAfter(time.Minute)}, func(x *rig, p *v1alpha1.Proxy) {
				x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
				x.pass(clientKey(p))
				x.step(61 * time.Second)
			},
			func(x *rig, p *v1alpha1.Proxy) {
				x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Spec.ReplaceUnhealthyAfter = nil })
			},
		},
		"stopped": {
			nil, func(x *rig, p *v1alpha1.Proxy) { x.backend.Stop(p.Status.ProviderID, "") },
			func(x *rig, p *v1alpha1.Proxy) { x.backend.Start(p.Status.ProviderID) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a", c.spec...)
			before := x.untilRunning(key)
			x.heal(before)
			accept := x.refuse(func() error { return refusals()["503 transient"] })
			c.begin(x, before)
			x.run(key, 5*time.Minute)
			if p := x.get(key); p.Status.DrainingSince == nil || p.Status.IP != "" {
				t.Fatalf("%+v", p.Status)
			}
			accept()
			c.undo(x, x.get(key))
			x.heal(x.untilRunning(key))
			x.run(key, 10*time.Minute)
			if p := x.get(key); p.Status.Instance.Attempt != 1 || p.Status.IP == "" || p.Status.DrainingSince != nil || p.Status.ReplacingSince != nil || p.Status.Phase != v1alpha1.PhaseReady {
				t.Errorf("%+v", p.Status)
			}
		})
	}
}

// An instance that boots in the middle of its drain still has its leases to wait for.
func TestADrainGoesOnAfterTheAddressIsLost(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	h := x.entries[x.entry]
	boots := &relabelling{Provider: h.Provider}
	h.Provider = boots
	x.entries[x.entry] = h
	key := x.managed("a")
	x.heal(x.untilRunning(key))
	x.leases.hold(1)
	x.edit(key, setPort(8080))
	x.run(key, 10*time.Second)
	boots.state = provider.StateProvisioning
	x.run(key, 20*time.Second)
	if p := x.get(key); p.Status.IP != "" || p.Status.DrainingSince == nil {
		t.Fatalf("%+v", p.Status)
	}
	boots.state = ""
	writes := x.counted()
	x.run(key, 60*time.Second)
	if p := x.get(key); x.backend.Calls(providertest.OpDelete) > 0 || reason(p) != v1alpha1.ReasonDraining || *writes > 2 {
		t.Errorf("deleted with a lease on it; %d writes: %+v", *writes, p.Status)
	}
	x.run(key, 2*time.Minute)
	if p := x.get(key); !atAttempt(2)(p) {
		t.Errorf("the drain never ends: %+v", p.Status)
	}
}

// Why the rest of a failed creation is still there stands beside why it failed.
func TestARefusedRemovalOfAFailedCreationKeepsTheFailure(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{BootDelay: time.Minute, DeleteDelay: 30 * time.Second})
	key := x.managed("a")
	refused := true
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		switch {
		case op == providertest.OpCreate:
			f.FailLate, f.LeaveParts = provider.Wrap(provider.ErrPermanent, "create", "", "", errors.New("no such disk type")), true
		case op == providertest.OpDelete && refused:
			f.Err = errors.New("503")
		}
		return f
	})
	writes := x.counted()
	x.run(key, 4*time.Minute)
	p := x.get(key)
	if c := provisioned(p); c.Reason != v1alpha1.ReasonPermanentError || !strings.Contains(c.Message, "; removing the instance failed: 503") || p.Status.Phase != v1alpha1.PhaseFailed || *writes > 5 {
		t.Errorf("%d writes, %s: %+v", *writes, p.Status.Phase, c)
	}
	before, _, _ := strings.Cut(provisioned(p).Message, "; removing")
	refused = false
	for range 60 {
		x.step(10 * time.Second)
		x.pass(key)
		if x.instances() == 0 {
			break
		}
	}
	x.pass(key)
	if c := provisioned(x.get(key)); c.Reason != v1alpha1.ReasonPermanentError || c.Message != before || x.instances() != 0 {
		t.Errorf("%d instances, %+v, want %q", x.instances(), c, before)
	}
}

func TestADeletionSaysAtOnceThatItFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{providertest.OpDelete, providertest.OpGet} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{DeleteDelay: time.Hour})
			key := settled(x)
			bad := true
			x.backend.OnCall(func(o string, _ provider.Ref) (f providertest.Fault) {
				if o == op && bad {
					f.Err = errors.New("out of order")
				}
				return f
			})
			writes := x.counted()
			x.delete(key)
			x.run(key, time.Second)
			if c := provisioned(x.get(key)); c.Message != "removing the instance failed: out of order" {
				t.Errorf("a second after the deletion: %+v", c)
			}
			x.run(key, 20*time.Second)
			bad = false
			x.run(key, 30*time.Second)
			if c := provisioned(x.get(key)); c.Message != "the instance is being removed" {
				t.Errorf("half a minute after it was mended: %+v", c)
			}
			if n := x.told("Warning RemovalFailed"); n != 1 || *writes > 3 {
				t.Errorf("%d writes, %d Events: %q", *writes, n, x.events.all())
			}
			// One that works every other time is not told each time.
			told := *writes
			calls := 0
			x.backend.OnCall(func(string, provider.Ref) (f providertest.Fault) {
				if calls++; calls%2 == 0 {
					f.Err = errors.New("out of order")
				}
				return f
			})
			x.run(key, 10*time.Minute)
			if n := *writes - told; n > 21 {
				t.Errorf("%d writes within ten minutes", n)
			}
		})
	}
}
