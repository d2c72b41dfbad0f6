package proxy

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// external represents a proxy that exists elsewhere. No backend is asked and no finalizer set.
func (ps *pass) external(ctx context.Context) (ctrl.Result, error) {
	e := ps.p.Spec.Endpoint
	if e == nil {
		// The schema forbids it; an object stored before a rule was made can still look so.
		ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonPermanentError, "spec.endpoint is missing")
		return ps.record(ctx, ps.steady)
	}
	ps.p.Status.IP, ps.p.Status.Port = e.Host, e.Port
	ps.provisioned(metav1.ConditionTrue, v1alpha1.ReasonExternalEndpoint, "the endpoint is given by the spec")
	if err := ps.resolveAuth(ctx); err != nil {
		var b *blockedError
		if !errors.As(err, &b) {
			return ctrl.Result{}, err
		}
		ps.provisioned(metav1.ConditionFalse, b.reason, b.message)
	}
	ps.health()
	return ps.record(ctx, ps.steady)
}
