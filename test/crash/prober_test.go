package crash

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// prober stands for the health engine: it knows one subject at a time, as the engine does, and forgets its verdict when
// the status describes another one or none.
type prober struct{ verdict fleet.Verdict }

// Verdict implements proxy.Health.
func (h *prober) Verdict(types.NamespacedName) (fleet.Verdict, bool) {
	return h.verdict, h.verdict.Subject != (fleet.Subject{})
}

// Replaceable implements proxy.Health.
func (h *prober) Replaceable(_ types.NamespacedName, subject fleet.Subject) (replaceable, unsure bool) {
	return h.verdict.Health == fleet.Unhealthy && h.verdict.Subject == subject, false
}

// follow takes in what the object now says.
func (h *prober) follow(p *v1alpha1.Proxy) {
	if p == nil || p.Status.IP == "" || !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned) {
		*h = prober{}
		return
	}
	if s := fleet.FromObject(p, nil).Subject(); h.verdict.Subject != s {
		*h = prober{verdict: fleet.Verdict{Subject: s, Reason: v1alpha1.ReasonNotProbed}}
	}
}

// probe sends traffic to the address that the status names: it passes when an instance of this Proxy runs there.
func (w *world) probe(p *v1alpha1.Proxy) {
	w.health.follow(p)
	if p == nil || w.health.verdict.Subject == (fleet.Subject{}) {
		return
	}
	v := &w.health.verdict
	v.Health, v.Reason = fleet.Unhealthy, v1alpha1.ReasonDialFailed
	if identity := w.backend.Serving(p.Status.IP, p.Status.Port); identity != "" {
		v.Health, v.Reason = fleet.Healthy, v1alpha1.ReasonProbeSucceeded
		w.proved[v.Subject] = identity
	}
}

// lying returns what is wrong with a Ready in the status: it needs a verdict about exactly what the status describes, got
// through the very instance that stands there, if one does.
func (w *world) lying(p *v1alpha1.Proxy) error {
	if p == nil || !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		return nil
	}
	s := fleet.FromObject(p, nil).Subject()
	if w.proved[s] == "" {
		return fmt.Errorf("Ready without a verdict about %+v", s)
	}
	for _, i := range w.backend.Instances() {
		if i.ID == p.Status.ProviderID && i.Marks.Attempt == s.Attempt && !i.Pending && w.proved[s] != i.Identity {
			return fmt.Errorf("Ready on a verdict about instance %s, while %s stands there", w.proved[s], i.Identity)
		}
	}
	return nil
}

// secrets stands for the cache of cloud-init Secrets.
type secrets struct {
	client.Reader
	held map[string]*corev1.Secret
}

func (s *secrets) Get(_ context.Context, k client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	found, ok := s.held[k.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, k.Name)
	}
	found.DeepCopyInto(obj.(*corev1.Secret))
	return nil
}

// keep stores a Secret with cloud-init.
func (w *world) keep(name, userData string) {
	w.secrets.held[name] = &corev1.Secret{Data: map[string][]byte{v1alpha1.DefaultCloudInitKey: []byte(userData)}}
	w.secrets.held[name].Name = name
}
