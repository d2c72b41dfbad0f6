package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// quotaText is how the ResourceQuota admission says that there is no room. Its refusals look like all others in every
// other respect, so this is the one place where a message is read.
const quotaText = "exceeded quota"

// verdict is what a failure means.
type verdict struct {
	class  error
	reason string
	retry  time.Duration
}

// classify is the table of what a failed call means, in order of precedence.
//
//	failure                             create      get, list*  update, delete
//	the caller's context ended          transient   transient   transient
//	no answer                           transient, Unreachable
//	401                                 denied      denied      denied
//	403 with "exceeded quota"           quota       denied      permanent
//	403                                 permanent   denied      permanent
//	404                                 permanent   transient   transient
//	409                                 transient   transient   transient
//	429, 408, 5xx                       transient, after the delay that the server asks for
//	any other 4xx                       permanent   permanent   permanent
//
// * and watch.
//
// A 403 on a creation is about that Proxy alone, be it from RBAC or from a webhook; one on a read is about the operator. A
// 404 that reaches the table is not about the Pod or the Secret asked for: those are looked at before. On a creation it is
// the namespace that is missing.
func classify(err error) verdict {
	var call *callError
	v := verb("")
	if errors.As(err, &call) {
		v = call.verb
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return verdict{class: provider.ErrTransient}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if _, ok := errors.AsType[*url.Error](err); ok {
			return verdict{class: provider.ErrTransient, reason: provider.ReasonUnreachable}
		}
		return verdict{class: provider.ErrTransient}
	}
	switch code := int(status.Status().Code); {
	case code == http.StatusUnauthorized:
		return verdict{class: provider.ErrDenied}
	case code == http.StatusForbidden && v == verbCreate && strings.Contains(status.Status().Message, quotaText):
		return verdict{class: provider.ErrQuotaExceeded}
	case code == http.StatusForbidden && (v == verbGet || v == verbList || v == verbWatch):
		return verdict{class: provider.ErrDenied}
	case code == http.StatusNotFound && v != verbCreate,
		code == http.StatusConflict, code == http.StatusGone,
		code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		seconds, _ := apierrors.SuggestsClientDelay(err)
		return verdict{class: provider.ErrTransient, retry: time.Duration(seconds) * time.Second}
	case code >= 400:
		return verdict{class: provider.ErrPermanent}
	}
	return verdict{class: provider.ErrTransient}
}

// fail turns what went wrong into the contract's error.
func (p *Provider) fail(op, id string, err error) *provider.Error {
	v := classify(err)
	return provider.Wrap(v.class, op, p.name, id, said(err)).WithReason(v.reason).WithRetryAfter(v.retry)
}

// cleaned is an error with a text that may be shown.
type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

func said(err error) error { return &cleaned{message.Clean(err.Error()), err} }

// absent reports whether err says that this very object is not there. Any other 404 (a namespace, a path that a gateway
// does not know) is no statement about it.
func absent(err error, resource string, at place) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusNotFound && s.Reason == metav1.StatusReasonNotFound &&
		s.Details != nil && s.Details.Kind == resource && s.Details.Name == at.name
}

// refusedForGood reports whether the API server has answered that it did not do what was asked, and will not.
func refusedForGood(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
}

// waiting is what it means that a container waits for a reason: a failure that shows after its creation was accepted. A
// pull may work the next time, whatever the registry said; a name that cannot be parsed never will. Nil is no failure.
func waiting(reason string) (class error) {
	switch reason {
	case "InvalidImageName", "ErrImageNeverPull":
		return provider.ErrPermanent
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed",
		"CrashLoopBackOff":
		return provider.ErrTransient
	}
	return nil
}
