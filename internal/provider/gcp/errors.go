package gcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// verdict is what a failure means.
type verdict struct {
	class  error
	reason string
	retry  time.Duration
}

// classify says what a failure means, in order of precedence.
//
//	the caller's context ended          transient
//	no credentials, 401                 denied: of the operator, not of one Proxy
//	no zone of that name                permanent on a creation; elsewhere whoever calls knows what follows
//	no answer                           transient, Unreachable
//	403 with a reason of the table      as the table says: rate limits and quotas
//	403                                 permanent on a change, denied on a read
//	404                                 permanent on a creation: zone, image or network are not there
//	                                    transient otherwise: what it is about was looked at before; and where it has no
//	                                    reason, which is not the API's own
//	409                                 transient
//	412                                 permanent: a policy forbids it
//	429, 408, 5xx                       transient, after the delay that the server asks for
//	400 and other 4xx                   as the table says, else permanent
//	an operation's errors               as the table says, else as their HTTP status would, else transient
//
// A 403 on a creation is about that Proxy alone: one tenant's image must not stop a provider.
func classify(err error) verdict {
	call, _ := errors.AsType[*callError](err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return verdict{class: provider.ErrTransient}
	}
	if _, ok := errors.AsType[*credentialsError](err); ok {
		return verdict{class: provider.ErrDenied}
	}
	if _, ok := errors.AsType[*foreignRuleError](err); ok {
		return verdict{class: provider.ErrPermanent}
	}
	if _, ok := errors.AsType[*noZoneError](err); ok {
		return verdict{class: provider.ErrPermanent}
	}
	if o, ok := errors.AsType[*operationError](err); ok {
		if class := meant(o.codes); class != nil {
			return verdict{class: class}
		}
		return ofStatus(o.status, verbCreate, o.codes)
	}
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		var v verb
		if call != nil {
			v = call.verb
		}
		meaning := ofStatus(answer.Code, v, reasonsOf(answer))
		if errors.Is(meaning.class, provider.ErrTransient) {
			meaning.retry = retryAfter(answer.Header)
		}
		return meaning
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return verdict{class: provider.ErrTransient, reason: provider.ReasonUnreachable}
	}
	return verdict{class: provider.ErrTransient}
}

func ofStatus(code int, v verb, reasons []string) verdict {
	switch {
	case code == http.StatusUnauthorized:
		return verdict{class: provider.ErrDenied}
	case code == http.StatusForbidden:
		if class := meant(reasons); errors.Is(class, provider.ErrTransient) || errors.Is(class, provider.ErrQuotaExceeded) {
			return verdict{class: class}
		}
		if v == verbGet || v == verbList {
			return verdict{class: provider.ErrDenied}
		}
		return verdict{class: provider.ErrPermanent}
	case code == http.StatusNotFound && (v != verbCreate || len(reasons) == 0),
		code == http.StatusConflict, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		if class := meant(reasons); code >= 500 && errors.Is(class, provider.ErrQuotaExceeded) {
			return verdict{class: class}
		}
		return verdict{class: provider.ErrTransient}
	case code == http.StatusPreconditionFailed:
		return verdict{class: provider.ErrPermanent}
	case code >= 400:
		if class := meant(reasons); class != nil {
			return verdict{class: class}
		}
		return verdict{class: provider.ErrPermanent}
	}
	return verdict{class: provider.ErrTransient}
}

func reasonsOf(e *googleapi.Error) []string {
	var all []string
	for _, item := range e.Errors {
		all = append(all, item.Reason)
	}
	return all
}

// maxRetryAfter bounds what is taken from a server: a day would look like a fault of the operator's.
const maxRetryAfter = time.Hour

// retryAfter reads a delay in seconds; 0 where there is none or none that makes sense.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseInt(strings.TrimSpace(h.Get("Retry-After")), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || seconds <= 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
}
