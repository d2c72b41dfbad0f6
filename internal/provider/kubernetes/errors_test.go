package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

func TestClassify(t *testing.T) {
	podsResource := schema.GroupResource{Resource: "pods"}
	throttled := apierrors.NewTooManyRequests("too many requests", 7)
	dial := &url.Error{Op: "Get", URL: "https://api/", Err: syscall.ECONNREFUSED}
	const forbidden = http.StatusForbidden
	for _, tc := range []struct {
		reason    string
		verb      verb
		err       error
		class     error
		why       string
		retrySecs int
	}{
		{"quota", verbCreate, status(forbidden, "Forbidden", `pods "p" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=1, limited: pods=1`), provider.ErrQuotaExceeded, "", 0},
		{"RBAC on a creation is this Proxy's", verbCreate, status(forbidden, "Forbidden", `pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"`), provider.ErrPermanent, "", 0},
		{"a webhook's denial", verbCreate, status(forbidden, "Forbidden", `admission webhook "w" denied the request: no`), provider.ErrPermanent, "", 0},
		{"Pod security", verbCreate, status(forbidden, "Forbidden", `pods "p" is forbidden: violates PodSecurity "restricted:latest"`), provider.ErrPermanent, "", 0},
		{"a quota that wants limits is not exceeded", verbCreate, status(forbidden, "Forbidden", `pods "p" is forbidden: failed quota: compute: must specify limits.cpu`), provider.ErrPermanent, "", 0},
		{"a namespace that ends", verbCreate, status(forbidden, "Forbidden", `pods "p" is forbidden: unable to create new content in namespace n because it is being terminated`), provider.ErrPermanent, "", 0},
		{"RBAC on a read is the operator's", verbGet, status(forbidden, "Forbidden", "no"), provider.ErrDenied, "", 0},
		{"RBAC on a list", verbList, status(forbidden, "Forbidden", "no"), provider.ErrDenied, "", 0},
		{"a text decides about creations alone", verbList, status(forbidden, "Forbidden", "exceeded quota"), provider.ErrDenied, "", 0},
		{"a removal refused", verbDelete, status(forbidden, "Forbidden", "exceeded quota"), provider.ErrPermanent, "", 0},
		{"a change refused", verbUpdate, status(forbidden, "Forbidden", "no"), provider.ErrPermanent, "", 0},
		{"401 on a creation", verbCreate, apierrors.NewUnauthorized("no"), provider.ErrDenied, "", 0},
		{"401 on a read", verbGet, apierrors.NewUnauthorized("no"), provider.ErrDenied, "", 0},
		{"no such namespace", verbCreate, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), provider.ErrPermanent, "", 0},
		{"a 404 that is about nothing", verbGet, status(http.StatusNotFound, "NotFound", "the server could not find the requested resource"), provider.ErrTransient, "", 0},
		{"somebody was faster", verbUpdate, apierrors.NewConflict(podsResource, "p", errors.New("modified")), provider.ErrTransient, "", 0},
		{"a list that took too long", verbList, apierrors.NewResourceExpired("too old"), provider.ErrTransient, "", 0},
		{"invalid", verbCreate, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil), provider.ErrPermanent, "", 0},
		{"a bad request", verbCreate, apierrors.NewBadRequest("no"), provider.ErrPermanent, "", 0},
		{"too large", verbCreate, apierrors.NewRequestEntityTooLargeError("no"), provider.ErrPermanent, "", 0},
		{"throttled", verbGet, throttled, provider.ErrTransient, "", 7},
		{"throttled on a creation", verbCreate, throttled, provider.ErrTransient, "", 7},
		{"the server's own time-out", verbCreate, apierrors.NewServerTimeout(podsResource, "create", 3), provider.ErrTransient, "", 3},
		{"a time-out", verbCreate, apierrors.NewTimeoutError("no", 0), provider.ErrTransient, "", 0},
		{"an internal error", verbCreate, apierrors.NewInternalError(errors.New("etcd")), provider.ErrTransient, "", 0},
		{"unavailable", verbGet, apierrors.NewServiceUnavailable("no"), provider.ErrTransient, "", 0},
		{"no connection", verbGet, dial, provider.ErrTransient, provider.ReasonUnreachable, 0},
		{"cancelled", verbGet, &url.Error{Op: "Get", URL: "https://api/", Err: context.Canceled}, provider.ErrTransient, "", 0},
		{"out of time", verbCreate, fmt.Errorf("x: %w", context.DeadlineExceeded), provider.ErrTransient, "", 0},
		{"not from the API", verbCreate, errors.New("what"), provider.ErrTransient, "", 0},
	} {
		got := classify(&callError{tc.verb, pods, "p", tc.err})
		if want := (verdict{tc.class, tc.why, time.Duration(tc.retrySecs) * time.Second}); got != want {
			t.Errorf("%s: %s: %v: got %+v, want %+v", tc.reason, tc.verb, tc.err, got, want)
		}
	}
}

func TestAbsentIsAboutTheObjectAsked(t *testing.T) {
	at := place{"n", "p"}
	of := func(resource, name string) error {
		return &callError{verbGet, pods, "p", apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)}
	}
	for _, tc := range []struct {
		reason string
		err    error
		want   bool
	}{
		{"the Pod", of("pods", "p"), true},
		{"another Pod", of("pods", "q"), false},
		{"the namespace", of("namespaces", "n"), false},
		{"a Secret", of("secrets", "p"), false},
		{"a gateway's page", status(http.StatusNotFound, "NotFound", "404 page not found"), false},
		{"forbidden", status(http.StatusForbidden, "Forbidden", "no"), false},
		{"nothing", nil, false},
	} {
		if got := absent(tc.err, pods, at); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}
