package proxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func kinds() []providertest.Kind {
	return []providertest.Kind{providertest.KindGCP, providertest.KindEC2, providertest.KindName}
}

// everyKind runs the test on each kind of backend memory.
func everyKind(t *testing.T, f func(t *testing.T, kind providertest.Kind)) {
	t.Helper()
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f(t, kind)
		})
	}
}

func TestFirstCreationPutsIntentOnRecordBeforeTheCall(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{BootDelay: 3 * time.Second})
		key := x.managed("a")
		asked := false
		x.backend.OnCall(func(op string, ref provider.Ref) providertest.Fault {
			if op == providertest.OpCreate {
				asked = true
				p := x.get(key)
				if p.Status.ProviderID != ref.ID || p.Status.Instance == nil || p.Status.Instance.Attempt != ref.Attempt || !p.Status.Instance.RequestedAt.Time.Equal(ref.RequestedAt) {
					t.Errorf("the call is for %+v, on record is %q %+v", ref, p.Status.ProviderID, p.Status.Instance)
				}
				if len(p.Finalizers) != 1 {
					t.Errorf("finalizers at the time of the call: %v", p.Finalizers)
				}
			}
			return providertest.Fault{}
		})
		x.pass(key)
		if !asked {
			t.Fatal("no creation was sent in the first pass")
		}
		p := x.get(key)
		if p.Status.Phase != v1alpha1.PhaseProvisioning || reason(p) != v1alpha1.ReasonProvisioning {
			t.Fatalf("phase %s, reason %s", p.Status.Phase, reason(p))
		}
		p = x.untilRunning(key)
		if p.Status.IP == "" || p.Status.Port != v1alpha1.DefaultPort || x.instances() != 1 {
			t.Fatalf("status %+v, %d instances", p.Status, x.instances())
		}
		if p.Status.Phase != v1alpha1.PhaseProvisioning {
			t.Fatalf("phase %s before any probe", p.Status.Phase)
		}
		x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, 12*time.Millisecond)
		x.pass(key)
		p = x.get(key)
		if p.Status.Phase != v1alpha1.PhaseReady || ptr.Deref(p.Status.LatencyMillis, 0) != 12 {
			t.Fatalf("phase %s latency %v", p.Status.Phase, p.Status.LatencyMillis)
		}
	})
}

func TestAStoppedInstanceIsDeletedAndTheNextAttemptIsAnother(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		for name, break_ := range map[string]func(*providertest.Backend, string) bool{
			"stopped":    func(b *providertest.Backend, id string) bool { return b.Stop(id, "host rebooted") },
			"terminated": func(b *providertest.Backend, id string) bool { return b.Terminate(id) },
			"vanished":   func(b *providertest.Backend, id string) bool { return b.Vanish(id) },
		} {
			t.Run(name, func(t *testing.T) {
				x := newRig(t, kind, providertest.BackendOptions{DeleteDelay: 4 * time.Second})
				key := x.managed("a")
				before := x.untilRunning(key)
				if !break_(x.backend, before.Status.ProviderID) {
					t.Fatal("the backend has no such instance")
				}
				x.pass(key)
				if p := x.get(key); p.Status.IP != "" || p.Status.Phase == v1alpha1.PhaseReady {
					t.Fatalf("the address is not withdrawn at once: %+v", p.Status)
				}
				p := x.untilRunning(key)
				if p.Status.Instance.Attempt != before.Status.Instance.Attempt+1 || x.instances() != 1 {
					t.Fatalf("attempt %d after %d, %d instances", p.Status.Instance.Attempt, before.Status.Instance.Attempt, x.instances())
				}
			})
		}
	})
}

func TestAnUnknownStateIsHeldAndNeverDestroyed(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	before := x.untilRunning(key)
	x.backend.Confuse(before.Status.ProviderID)
	for range 50 {
		x.pass(key)
		x.step(10 * time.Second)
	}
	p := x.get(key)
	if provisioned(p).Status != metav1.ConditionTrue || !strings.Contains(provisioned(p).Message, "left alone") {
		t.Fatalf("condition %+v", provisioned(p))
	}
	if x.backend.Calls(providertest.OpDelete) != 0 || x.instances() != 1 || p.Status.Instance.Attempt != 1 {
		t.Fatalf("%d deletions, %d instances, attempt %d", x.backend.Calls(providertest.OpDelete), x.instances(), p.Status.Instance.Attempt)
	}
}

func TestALostAnswerIsResumedOnceUnderTheSameAttempt(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{})
		key := x.managed("a")
		lose := true
		x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
			if op == providertest.OpCreate && lose {
				lose = false
				return providertest.Fault{Err: errors.New("connection reset")}
			}
			return providertest.Fault{}
		})
		x.pass(key)
		x.restart() // the process that sent it is gone, and with it the knowledge that it failed
		p := x.untilRunning(key)
		if p.Status.Instance.Attempt != 1 || x.instances() != 1 {
			t.Fatalf("attempt %d, %d instances", p.Status.Instance.Attempt, x.instances())
		}
	})
}

func TestACreationThatArrivesLateMakesNoSecondInstance(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{})
		key := x.managed("a")
		late := true
		x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
			if op == providertest.OpCreate && late {
				late = false
				return providertest.Fault{ArriveAfter: 15 * time.Second}
			}
			return providertest.Fault{}
		})
		p := x.untilRunning(key)
		if x.instances() != 1 {
			t.Fatalf("%d instances", x.instances())
		}
		for range 120 { // long after every window
			x.pass(key)
			x.step(time.Second)
			if x.instances() != 1 {
				t.Fatalf("%d instances", x.instances())
			}
		}
		if got := x.get(key).Status.Instance.Attempt; got != p.Status.Instance.Attempt {
			t.Fatalf("attempt moved from %d to %d", p.Status.Instance.Attempt, got)
		}
	})
}

func TestFailuresWaitAsTheirClassAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		reason string
		phase  v1alpha1.Phase
		// least is when the next attempt must not have started yet, most when it must have.
		least, most time.Duration
	}{
		"quota":     {provider.ErrQuotaExceeded, v1alpha1.ReasonQuotaExceeded, v1alpha1.PhaseProvisioning, 4 * time.Minute, 8 * time.Minute},
		"permanent": {provider.ErrPermanent, v1alpha1.ReasonPermanentError, v1alpha1.PhaseFailed, 8 * time.Minute, 16 * time.Minute},
		"denied":    {provider.ErrDenied, v1alpha1.ReasonProviderUnavailable, v1alpha1.PhaseProvisioning, 50 * time.Second, 4 * time.Minute},
		"transient": {provider.ErrTransient, v1alpha1.ReasonProvisioning, v1alpha1.PhaseProvisioning, 0, window + time.Minute},
	} {
		for _, late := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " at once", true: " late"}[late], func(t *testing.T) {
				t.Parallel()
				x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
				key := x.managed("a")
				failing := true
				x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
					if op != providertest.OpCreate || !failing {
						return providertest.Fault{}
					}
					if late {
						return providertest.Fault{FailLate: c.err}
					}
					return providertest.Fault{Err: c.err}
				})
				p := x.until(key, c.reason, func(p *v1alpha1.Proxy) bool { return reason(p) == c.reason && p.Status.Latch != nil })
				if p.Status.Phase != c.phase {
					t.Fatalf("phase %s, want %s", p.Status.Phase, c.phase)
				}
				failing = false
				began := x.clock.Now()
				attempt := p.Status.Instance.Attempt
				x.until(key, "the next attempt", func(p *v1alpha1.Proxy) bool { return p.Status.Instance.Attempt > attempt })
				if took := x.clock.Since(began); took < c.least || took > c.most {
					t.Fatalf("the next attempt came after %s, want %s to %s", took, c.least, c.most)
				}
				if p := x.untilRunning(key); p.Status.Latch != nil || x.instances() != 1 {
					t.Fatalf("latch %+v, %d instances", p.Status.Latch, x.instances())
				}
			})
		}
	}
}

func TestALatchIsReleasedByASpecEditAndByAnotherConfiguration(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(x *rig, p *v1alpha1.Proxy){
		"spec edit": func(x *rig, p *v1alpha1.Proxy) {
			x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](8080) })
		},
		"configuration": func(x *rig, _ *v1alpha1.Proxy) { x.configure(handleRevision("2")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			failing := true
			x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
				if op == providertest.OpCreate && failing {
					return providertest.Fault{Err: provider.ErrPermanent}
				}
				return providertest.Fault{}
			})
			p := x.until(key, "latched", func(p *v1alpha1.Proxy) bool { return p.Status.Latch != nil })
			failing = false
			x.step(window)
			x.pass(key)
			if got := x.get(key); got.Status.Instance.Attempt != 1 || reason(got) != v1alpha1.ReasonPermanentError {
				t.Fatalf("a latched Proxy moved: %+v", got.Status)
			}
			release(x, p)
			began := x.clock.Now()
			x.untilRunning(key)
			if took := x.clock.Since(began); took > 10*time.Second {
				t.Fatalf("released only after %s", took)
			}
		})
	}
}

func TestAForeignInstanceUnderTheIDIsLeftAlone(t *testing.T) {
	t.Parallel()
	everyKind(t, func(t *testing.T, kind providertest.Kind) {
		x := newRig(t, kind, providertest.BackendOptions{})
		key := x.managed("a")
		p := x.get(key)
		id := "zones/zone-a/instances/" + provider.NameFromUID(string(p.UID))
		identity := x.backend.Place(id, nil, 3128)
		x.until(key, "Conflict", func(p *v1alpha1.Proxy) bool { return reason(p) == v1alpha1.ReasonConflict })
		x.delete(key)
		for range int(window/time.Second) + 60 {
			if x.get(key) == nil {
				break
			}
			x.pass(key)
			x.step(time.Second)
		}
		if x.get(key) != nil {
			t.Fatalf("the Proxy cannot be deleted: %+v", provisioned(x.get(key)))
		}
		left := x.backend.Instances()
		if len(left) != 1 || left[0].Identity != identity {
			t.Fatalf("the foreign instance was touched: %+v", left)
		}
	})
}

func TestAConflictWithdrawsTheAddress(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindName, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.pass(key)
	x.backend.Vanish(p.Status.ProviderID)
	x.backend.Place(p.Status.ProviderID, nil, 3128)
	x.pass(key)
	if got := x.get(key); got.Status.IP != "" || reason(got) != v1alpha1.ReasonConflict || got.Status.Phase == v1alpha1.PhaseReady {
		t.Fatalf("a stranger's address is still offered: %+v", got.Status)
	}
}

func TestHealthIsRepresentedWhileTheBackendIsDown(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
	x.pass(key)
	x.backend.OnCall(func(string, provider.Ref) providertest.Fault {
		return providertest.Fault{Err: errors.New("connection refused")}
	})
	x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonDialFailed, 0)
	x.pass(key)
	if got := x.get(key); got.Status.Phase != v1alpha1.PhaseUnhealthy || provisioned(got).Status != metav1.ConditionTrue || got.Status.IP == "" {
		t.Fatalf("%+v", got.Status)
	}
}

func TestAProviderThatIsNotConfiguredHoldsEverything(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	running := x.managed("running")
	p := x.untilRunning(running)
	entries := x.entries
	x.entries = nil
	waiting := x.managed("waiting")
	x.pass(running)
	x.pass(waiting)
	if got := x.get(running); provisioned(got).Status != metav1.ConditionTrue || got.Status.IP != p.Status.IP || !strings.Contains(provisioned(got).Message, "unmanaged") {
		t.Fatalf("running: %+v", got.Status)
	}
	if got := x.get(waiting); reason(got) != v1alpha1.ReasonProviderNotConfigured || got.Status.Phase != v1alpha1.PhasePending {
		t.Fatalf("waiting: %+v", got.Status)
	}
	x.delete(running)
	x.step(time.Hour)
	x.pass(running)
	if got := x.get(running); got == nil || reason(got) != v1alpha1.ReasonProviderNotConfigured {
		t.Fatal("released although its instance may still exist")
	}
	x.delete(waiting)
	x.pass(waiting)
	if x.get(waiting) != nil {
		t.Fatal("a Proxy without an attempt is held by a provider that is not configured")
	}
	x.entries = entries
	x.until(running, "gone", func(p *v1alpha1.Proxy) bool { return p == nil })
	if x.instances() != 0 {
		t.Fatalf("%d instances left", x.instances())
	}
}

func TestMaxInstancesCapsRecordedAttempts(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	h := x.entries[x.entry]
	h.MaxInstances = 1
	x.entries[x.entry] = h
	first, second := x.managed("first"), x.managed("second")
	x.pass(first)
	x.pass(second)
	if got := x.get(second); reason(got) != v1alpha1.ReasonQuotaExceeded || got.Status.Instance != nil {
		t.Fatalf("%+v", got.Status)
	}
	x.delete(first)
	x.until(first, "gone", func(p *v1alpha1.Proxy) bool { return p == nil })
	x.step(6 * time.Minute)
	x.untilRunning(second)
}

func TestAProxyThatCannotBePlannedTakesNoPlace(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	h := x.entries[x.entry]
	h.MaxInstances = 1
	x.entries[x.entry] = h
	typo := x.managed("typo", func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: "zone-typo"} })
	x.pass(typo)
	if got := x.get(typo); reason(got) != v1alpha1.ReasonPermanentError || got.Status.Instance != nil {
		t.Fatalf("%+v", got.Status)
	}
	x.untilRunning(x.managed("good"))
}

func handleRevision(r string) registry.Handle { return registry.Handle{Revision: r} }
