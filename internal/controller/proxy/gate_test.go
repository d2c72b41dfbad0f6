package proxy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// shutsGate are the errors that shut a gate, with what a Proxy that waits must say.
func shutsGate() map[string]error {
	return map[string]error{
		"denied":      provider.Wrap(provider.ErrDenied, "call", "", "", errors.New("401 the key was revoked")),
		"unreachable": provider.Wrap(provider.ErrTransient, "call", "", "", errors.New("401 the key was revoked")).WithReason(provider.ReasonUnreachable),
	}
}

// failWith makes the backend answer every call of the ops (all, without any) with err until it is mended.
func (x *rig) failWith(err error, ops ...string) (mend func()) {
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		match := len(ops) == 0
		for _, one := range ops {
			match = match || op == one
		}
		if match {
			f.Err = err
		}
		return f
	})
	return func() { x.backend.OnCall(nil) }
}

// opens has a check find the provider's targets ready, as the monitor does.
func (x *rig) opens() {
	instrument.Report(x.entries[x.entry].Provider, []provider.TargetStatus{{Target: "cloud", Ready: true, Reason: provider.CheckReachable}})
}

// calls counts what has reached the backend; of calls that take several steps, each.
func (x *rig) calls() (n int) {
	for _, op := range []string{
		providertest.OpCreateRead, providertest.OpCreate, providertest.OpGetOperation, providertest.OpGet, providertest.OpDeleteRead,
		providertest.OpDelete, providertest.OpList,
	} {
		n += x.backend.Calls(op)
	}
	return n
}

// runAll is run for several Proxies, whose passes come when they have asked for them.
func (x *rig) runAll(d time.Duration, keys ...types.NamespacedName) {
	x.t.Helper()
	end, passes := x.clock.Now().Add(d), 0
	due, versions := map[types.NamespacedName]time.Time{}, map[types.NamespacedName]string{}
	for _, key := range keys {
		due[key] = x.clock.Now()
	}
	for {
		next := end
		for _, key := range keys {
			for !due[key].After(x.clock.Now()) {
				if passes++; passes > 3000 {
					x.t.Fatalf("3000 passes, %s before the end: %+v", end.Sub(x.clock.Now()), provisioned(x.get(key)))
				}
				res := x.pass(key)
				due[key] = end
				if res.RequeueAfter > 0 {
					due[key] = x.clock.Now().Add(res.RequeueAfter)
				}
				p := x.get(key)
				if p != nil && p.ResourceVersion != versions[key] {
					versions[key], due[key] = p.ResourceVersion, x.clock.Now()
				}
			}
			if due[key].Before(next) {
				next = due[key]
			}
		}
		if !next.Before(end) {
			x.step(end.Sub(x.clock.Now()))
			return
		}
		x.step(next.Sub(x.clock.Now()))
	}
}

func TestProxiesWaitAtAShutGate(t *testing.T) {
	t.Parallel()
	for name, err := range shutsGate() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			x.guarded()
			running, doomed := x.managed("running"), x.managed("doomed")
			x.heal(x.untilRunning(running))
			x.heal(x.untilRunning(doomed))
			x.runAll(2*time.Minute, running, doomed)
			mend := x.failWith(err)
			waiting := []types.NamespacedName{x.managed("w1"), x.managed("w2"), x.managed("w3")}
			x.delete(doomed)
			all := append([]types.NamespacedName{running, doomed}, waiting...)
			x.runAll(5*time.Minute, all...)

			writes, calls, told := x.counted(), x.calls(), len(x.events.all())
			versions := map[types.NamespacedName]string{}
			for _, key := range all {
				versions[key] = x.get(key).ResourceVersion
			}
			x.runAll(2*time.Hour, all...)
			// One canary at a time: every 15 min when it is denied, every 5 min when it is unreachable, and a little later.
			if n := x.calls() - calls; n == 0 || n > 25 {
				t.Errorf("%d calls in two hours", n)
			}
			// A canary that is a creation puts its intent on record, and that it failed; from then on the Proxy asks first.
			if n := len(x.events.all()) - told; n > len(waiting) || *writes > 3*len(waiting) {
				t.Errorf("%d writes and %d Events in two hours: %q", *writes, n, x.events.all()[told:])
			}
			if v := x.get(running).ResourceVersion; v != versions[running] || x.get(doomed).ResourceVersion != versions[doomed] {
				t.Error("the running or the doomed one was written")
			}
			for _, key := range waiting {
				p := x.get(key)
				if c := provisioned(p); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonProviderUnavailable || !strings.Contains(c.Message, "the provider") || !strings.Contains(c.Message, "401 the key was revoked") {
					t.Errorf("%s: %+v", key.Name, c)
				}
			}
			p := x.get(running)
			if c := provisioned(p); c.Status != metav1.ConditionTrue || p.Status.IP == "" || p.Status.Phase != v1alpha1.PhaseReady || !strings.Contains(c.Message, "401 the key was revoked") {
				t.Errorf("running: %s, %+v", p.Status.Phase, c)
			}

			mend()
			x.opens()
			for _, key := range all {
				x.pass(key) // the releaser wakes them
			}
			if n := len(x.backend.Instances()); n < 1+len(waiting) {
				t.Errorf("%d instances right after the gate has opened", n)
			}
			x.runAll(10*time.Minute, all...)
			for _, key := range append(waiting, running) {
				if got := provisioned(x.get(key)); got.Reason != v1alpha1.ReasonCreated || strings.Contains(got.Message, "401") {
					t.Errorf("%s in the end: %+v", key.Name, got)
				}
			}
			if x.get(doomed) != nil || x.instances() != 1+len(waiting) {
				t.Errorf("%d instances in the end", x.instances())
			}
		})
	}
}

// What holds a creation back that was denied is the gate, and nothing once that has opened.
func TestALatchDoesNotOutliveTheGate(t *testing.T) {
	t.Parallel()
	for name, err := range shutsGate() {
		for _, restart := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", restarted"}[restart], func(t *testing.T) {
				t.Parallel()
				x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
				x.guarded()
				key := x.managed("a")
				mend := x.failWith(err, providertest.OpCreate)
				for round := range 5 { // each with a longer wait
					x.pass(key)
					p := x.get(key)
					if l := p.Status.Latch; l == nil || l.NextRetryTime == nil || reason(p) != v1alpha1.ReasonProviderUnavailable {
						t.Fatalf("round %d: %+v", round, p.Status)
					}
					x.failWith(err)
					x.step(window)
					x.pass(key)
					x.failWith(err, providertest.OpCreate)
					x.opens()
				}
				x.pass(key)
				x.failWith(err)
				x.step(window)
				x.pass(key)
				if restart {
					x.restart()
				}
				before := x.get(key).Status.Instance.Attempt
				if !x.clock.Now().Before(x.get(key).Status.Latch.NextRetryTime.Time) && name == "denied" {
					t.Fatal("the latch would be over anyway")
				}
				mend()
				x.opens()
				x.pass(key)
				if p := x.get(key); p.Status.Instance.Attempt != before+1 || x.backend.Calls(providertest.OpCreate) != int(before)+1 {
					t.Errorf("not created at once: %+v, %+v", p.Status.Instance, provisioned(p))
				}
			})
		}
	}
}

// A creation that was accepted and denied later shuts no gate, so its latch holds.
func TestALateDenialHoldsByItself(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{BootDelay: 5 * time.Second})
	x.guarded()
	key := x.managed("a")
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		if op == providertest.OpCreate {
			f.FailLate = provider.ErrDenied
		}
		return f
	})
	x.run(key, 30*time.Minute)
	if n := x.backend.Calls(providertest.OpCreate); n < 3 || n > 6 {
		t.Errorf("%d creations within half an hour", n)
	}
}

func TestARemovalGoesOnOnceTheGateHasOpened(t *testing.T) {
	t.Parallel()
	for name, err := range shutsGate() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			x.guarded()
			key := settled(x)
			mend := x.failWith(err, providertest.OpDelete)
			x.delete(key)
			x.pass(key)
			if n := x.backend.Calls(providertest.OpDelete); n != 1 {
				t.Fatalf("%d deletions", n)
			}
			mend()
			x.opens()
			x.pass(key)
			if n := x.backend.Calls(providertest.OpDelete); n != 2 {
				t.Errorf("%d deletions, want the second right after the gate has opened", n)
			}
			x.until(key, "gone", gone)
		})
	}
}

// One instance that may not be deleted shuts the gate again and again, if it is tried whenever that opens.
func TestARemovalThatIsDeniedAgainWaitsByItself(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.guarded()
	key := settled(x)
	x.failWith(shutsGate()["denied"], providertest.OpDelete)
	x.delete(key)
	for range 100 {
		x.pass(key)
		x.opens()
	}
	if n := x.backend.Calls(providertest.OpDelete); n != 2 {
		t.Errorf("%d deletions in no time", n)
	}
}

// An entry that was removed and is added again releases whoever waits: the next pass goes on at once.
func TestAProviderThatIsAddedAgainReleases(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.guarded()
	running, doomed := x.managed("running"), x.managed("doomed")
	x.heal(x.untilRunning(running))
	x.untilRunning(doomed)
	entries := x.entries
	x.entries = nil
	waiting := x.managed("waiting")
	x.delete(doomed)
	calls := x.calls()
	x.runAll(time.Hour, running, doomed, waiting)
	if n := x.calls() - calls; n > 0 || x.instances() != 2 {
		t.Errorf("%d calls, %d instances without an entry", n, x.instances())
	}
	x.entries = entries
	for _, key := range []types.NamespacedName{running, doomed, waiting} {
		x.pass(key)
	}
	if p := x.get(waiting); p.Status.Instance == nil || x.instances() < 2 {
		t.Errorf("waiting: %+v", p.Status)
	}
	if c := provisioned(x.get(running)); strings.Contains(c.Message, "unmanaged") || c.Status != metav1.ConditionTrue {
		t.Errorf("running: %+v", c)
	}
	x.until(doomed, "gone", gone)
	x.untilRunning(waiting)
}

// What the backend quotes of one Proxy's credentials is no business of the others that wait.
func TestOthersWaitWithoutSeeingSecrets(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	x.guarded()
	const password = "sentinel-of-a-password"
	must(t, x.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: "auth", Labels: map[string]string{v1alpha1.LabelProxyAuth: v1alpha1.LabelValueTrue}},
		Type:       corev1.SecretTypeBasicAuth,
		StringData: map[string]string{corev1.BasicAuthUsernameKey: "u", corev1.BasicAuthPasswordKey: password},
	}))
	x.failWith(provider.Wrap(provider.ErrDenied, "create", "", "", errors.New("refused with "+password)), providertest.OpCreate)
	first := x.managed("first", func(p *v1alpha1.Proxy) {
		p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "auth"}}
	})
	second := x.managed("second")
	x.pass(first)
	x.pass(second)
	for _, key := range []types.NamespacedName{first, second} {
		if c := provisioned(x.get(key)); !strings.Contains(c.Message, "refused with") || strings.Contains(c.Message, "sentinel") {
			t.Errorf("%s: %q", key.Name, c.Message)
		}
	}
}

// asking is a provider whose Plan asks the backend first, as that of hypervisors does.
type asking struct {
	provider.Provider
	x   *rig
	err *error
}

func (asking) PlanTarget(provider.CreateRequest) string { return "host" }

func (asking) Target(provider.Ref) string { return "host" }

func (a asking) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if *a.err != nil {
		return "", *a.err
	}
	return a.Provider.Plan(ctx, req)
}

// Where a plan meets the shut gate, nothing has been asked for that could be latched.
func TestAPlanThatIsDeniedLatchesNothing(t *testing.T) {
	t.Parallel()
	for name, err := range shutsGate() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			h := x.entries[x.entry]
			h.Provider = asking{h.Provider, x, &err}
			x.entries[x.entry] = h
			x.guarded()
			keys := []types.NamespacedName{x.managed("a"), x.managed("b")}
			x.runAll(time.Minute, keys...)
			writes := x.counted()
			x.runAll(time.Hour, keys...)
			for _, key := range keys {
				p := x.get(key)
				if c := provisioned(p); p.Status.Latch != nil || p.Status.Instance != nil || c.Reason != v1alpha1.ReasonProviderUnavailable || !strings.Contains(c.Message, "target host") {
					t.Errorf("%s: %+v, %+v", key.Name, p.Status.Latch, c)
				}
			}
			if *writes > 0 {
				t.Errorf("%d writes within an hour", *writes)
			}
			err = nil
			instrument.Report(x.entries[x.entry].Provider, []provider.TargetStatus{{Target: "host", Ready: true}})
			for _, key := range keys {
				x.pass(key)
				if x.get(key).Status.Instance == nil {
					t.Errorf("%s does not go on at once: %+v", key.Name, provisioned(x.get(key)))
				}
			}
		})
	}
}
