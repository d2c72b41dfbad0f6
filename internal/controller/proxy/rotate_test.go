package proxy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// withCredentials makes a Proxy with credentials, on a provider that takes changed ones or does not.
func withCredentials(t *testing.T, rotates bool) (x *rig, key types.NamespacedName) {
	t.Helper()
	x = newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	if rotates {
		h := x.entries[x.entry]
		stateful, ok := h.Provider.(*providertest.Stateful)
		if !ok {
			t.Fatalf("%T", h.Provider)
		}
		h.Provider = providertest.Updating{Stateful: stateful}
		x.entries[x.entry] = h
	}
	x.secret("creds", v1alpha1.LabelProxyAuth, corev1.SecretTypeBasicAuth, map[string]string{"username": "u", "password": "first"})
	return x, x.managed("a", func(p *v1alpha1.Proxy) { p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}} })
}

func (x *rig) changePassword() {
	x.t.Helper()
	var s corev1.Secret
	must(x.t, x.client.Get(x.t.Context(), types.NamespacedName{Namespace: x.ns, Name: "creds"}, &s))
	s.Data["password"] = []byte("second")
	must(x.t, x.client.Update(x.t.Context(), &s))
}

func TestChangedCredentialsReachTheRunningInstance(t *testing.T) {
	t.Parallel()
	x, key := withCredentials(t, true)
	p := x.untilRunning(key)
	before := x.backend.CredentialRevision(p.Status.ProviderID)
	for range 5 {
		x.pass(key)
	}
	if n := x.backend.Calls(providertest.OpUpdate); before == "" || n != 0 {
		t.Fatalf("revision %q at the creation, %d updates without a change", before, n)
	}
	x.changePassword()
	x.pass(key)
	after := x.backend.CredentialRevision(p.Status.ProviderID)
	if after == before || x.get(key).Status.Instance.Attempt != 1 || reason(x.get(key)) != v1alpha1.ReasonCreated {
		t.Fatalf("revision %q after %q, %+v", after, before, x.get(key).Status)
	}
	for range 5 {
		x.pass(key)
	}
	if n := x.backend.Calls(providertest.OpUpdate); n != 1 {
		t.Fatalf("%d updates for one change", n)
	}
	x.restart()
	x.pass(key)
	x.pass(key)
	if n := x.backend.Calls(providertest.OpUpdate); n != 2 {
		t.Fatalf("%d updates after a restart, one more belongs to it", n)
	}
}

func TestCredentialsThatCannotBeHandedOverAreTriedAgain(t *testing.T) {
	t.Parallel()
	x, key := withCredentials(t, true)
	p := x.untilRunning(key)
	before := x.backend.CredentialRevision(p.Status.ProviderID)
	x.changePassword()
	x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
		if op == providertest.OpUpdate {
			return providertest.Fault{Err: provider.ErrTransient}
		}
		return providertest.Fault{}
	})
	if res := x.pass(key); res.RequeueAfter <= 0 || res.RequeueAfter > time.Minute {
		t.Fatalf("the next try is in %s", res.RequeueAfter)
	}
	x.backend.OnCall(nil)
	x.pass(key)
	if x.backend.CredentialRevision(p.Status.ProviderID) == before {
		t.Fatal("not tried again")
	}
}

func TestAProviderThatCannotTakeCredentialsGetsANewInstance(t *testing.T) {
	t.Parallel()
	x, key := withCredentials(t, false)
	x.untilRunning(key)
	x.changePassword()
	x.until(key, "attempt 2", atAttempt(2))
}

// Credentials that the provider refuses are mended by changing them, although they are not in the spec mark.
func TestOtherCredentialsReleaseALatch(t *testing.T) {
	t.Parallel()
	x, key := withCredentials(t, true)
	refused := 0
	x.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		if op == providertest.OpCreate && refused == 0 {
			refused++
			f.Err = provider.ErrPermanent
		}
		return f
	})
	x.until(key, "it is refused", func(p *v1alpha1.Proxy) bool { return reason(p) == v1alpha1.ReasonPermanentError })
	for range 3 {
		x.pass(key)
	}
	if n := x.backend.Calls(providertest.OpCreate); n != 1 {
		t.Fatalf("%d creations while it is latched", n)
	}
	x.changePassword()
	changed := x.clock.Now()
	// Nothing may come of the first attempt any more, which takes a minute; the latch would hold for ten.
	p := x.untilRunning(key)
	if took := x.clock.Since(changed); p.Status.Instance.Attempt != 2 || took > 5*time.Minute {
		t.Errorf("attempt %d runs after %s", p.Status.Instance.Attempt, took)
	}
	if n := x.backend.Calls(providertest.OpCreate); n != 2 {
		t.Errorf("%d creations", n)
	}
}
