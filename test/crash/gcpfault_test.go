package crash

import (
	"errors"
	"net/http"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// faultOf is how Compute Engine does what a fault says; nil for nothing.
func faultOf(r *http.Request, op string, f providertest.Fault) *gcpemulator.Fault {
	if f == (providertest.Fault{}) {
		return nil
	}
	out := &gcpemulator.Fault{Applied: f.Applied, ArriveAfter: f.ArriveAfter, ShowAfter: f.VisibleAfter}
	if f.Err != nil {
		out.Status, out.Reason = http.StatusServiceUnavailable, "backendError"
		switch {
		case errors.Is(f.Err, provider.ErrPermanent):
			out.Status, out.Reason = http.StatusBadRequest, "invalid"
		case errors.Is(f.Err, provider.ErrQuotaExceeded):
			out.Status, out.Reason = http.StatusForbidden, "quotaExceeded"
		case errors.Is(f.Err, provider.ErrDenied):
			out.Status, out.Reason = http.StatusUnauthorized, "authError"
		}
	}
	if f.Applied || f.ArriveAfter > 0 {
		out.Status, out.Reset = 0, true
		if r.Method == http.MethodGet {
			out.Status, out.Reset = http.StatusServiceUnavailable, false // a broken connection makes net/http repeat it
		}
	}
	leaves := gcpemulator.LeavesNothing
	if f.LeaveParts {
		leaves = gcpemulator.LeavesDisk
	}
	if f.FailLate != nil || f.LeaveParts && op == providertest.OpDelete {
		out.Late = &gcpemulator.Late{Errors: []gcpemulator.OperationError{{Code: codeOf(f.FailLate), Message: "it failed late"}}, Leaves: leaves}
	}
	return out
}

func codeOf(class error) string {
	switch {
	case errors.Is(class, provider.ErrQuotaExceeded):
		return "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
	case errors.Is(class, provider.ErrPermanent), errors.Is(class, provider.ErrDenied):
		return "INVALID_FIELD_VALUE"
	}
	return "INTERNAL_ERROR"
}
