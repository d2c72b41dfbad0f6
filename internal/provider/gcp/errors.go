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
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// verb is what a call asks the API to do; what a refusal means depends on it.
type verb string

const (
	verbGet    verb = "get"
	verbList   verb = "list"
	verbCreate verb = "insert"
	verbUpdate verb = "patch"
	verbDelete verb = "delete"
)

// callError is how a call to the API ended, with what it was.
type callError struct {
	verb     verb
	resource string
	name     string
	err      error
}

func (e *callError) Error() string {
	if e.name == "" {
		return string(e.verb) + " " + e.resource + ": " + e.err.Error()
	}
	return string(e.verb) + " " + e.resource + " " + e.name + ": " + e.err.Error()
}

func (e *callError) Unwrap() error { return e.err }

// meaning is a row of the table: what a code means, be it the reason of an answer or the code of an operation's error.
type meaning struct {
	class error
	// codes in any spelling: quotaExceeded is QUOTA_EXCEEDED. One that ends in * stands for all that begin so.
	codes []string
}

// meanings is the table, used for answers and for operations alike. Where several codes are given, the first row that any of
// them is in counts: what needs a person before what may pass.
var meanings = []meaning{
	{provider.ErrPermanent, []string{
		"invalid", "INVALID_FIELD_VALUE", "INVALID_USAGE", "INVALID_ARGUMENT", "required", "badRequest", "UNSUPPORTED_OPERATION",
		"RESOURCE_NOT_FOUND", "IMAGE_NOT_FOUND", "notFound", "conditionNotMet", "CONDITION_NOT_MET", "PERMISSIONS_ERROR", "PERMISSION_DENIED",
		"RESOURCE_OPERATION_NOT_ALLOWED", "billingNotEnabled",
	}},
	{provider.ErrQuotaExceeded, []string{
		// There is no room in the zone, or none is granted to the project: neither passes within seconds.
		"ZONE_RESOURCE_POOL_EXHAUSTED*", "REGION_RESOURCE_POOL_EXHAUSTED*", "RESOURCE_POOL_EXHAUSTED*", "STOCKOUT*", "IP_SPACE_EXHAUSTED*",
		"QUOTA_EXCEEDED*", "quotaExceeded", "LIMIT_EXCEEDED*", "resourcesExhausted",
	}},
	{provider.ErrTransient, []string{
		"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED", "concurrentLimitExceeded",
		"resourceNotReady", "RESOURCE_NOT_READY", "resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
		"alreadyExists", "RESOURCE_ALREADY_EXISTS", "backendError", "internalError", "INTERNAL_ERROR", "CONFLICT", "RESOURCE_CONFLICT", "operationInProgress", "OPERATION_CANCELED_BY_USER", "timeout",
	}},
}

// meant returns the class of the first row that any of the codes is in, nil for none.
func meant(codes []string) error {
	for _, m := range meanings {
		for _, known := range m.codes {
			for _, code := range codes {
				if same(code, known) {
					return m.class
				}
			}
		}
	}
	return nil
}

func same(code, known string) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	if prefix, ok := strings.CutSuffix(known, "*"); ok {
		return strings.HasPrefix(plain(code), plain(prefix))
	}
	return plain(code) == plain(known)
}

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
//	no answer                           transient, Unreachable
//	403 with a reason of the table      as the table says: rate limits and quotas
//	403                                 permanent on a change, denied on a read
//	404                                 permanent on a creation: zone, image or network are not there
//	                                    transient otherwise: what it is about was looked at before
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
	if o, ok := errors.AsType[*operationError](err); ok {
		if class := meant(o.codes); class != nil {
			return verdict{class: class}
		}
		if o.status >= 400 {
			return ofStatus(o.status, verbCreate, nil)
		}
		return verdict{class: provider.ErrTransient}
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
	case code == http.StatusNotFound && v != verbCreate,
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
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds <= 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
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

func said(err error) error {
	text := err.Error()
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		// Its own text repeats the whole body, which for a gateway's page says nothing.
		what := answer.Message
		if what == "" {
			what = http.StatusText(answer.Code)
		}
		text = strconv.Itoa(answer.Code) + " " + what
		if reasons := reasonsOf(answer); len(reasons) > 0 {
			text += " (" + strings.Join(reasons, ", ") + ")"
		}
		if call, ok := errors.AsType[*callError](err); ok {
			text = (&callError{call.verb, call.resource, call.name, errors.New(text)}).Error()
		}
	}
	return &cleaned{message.Clean(text), err}
}

// absent reports whether the API says that what was asked for by name is not there. It says the same of a thing in a zone or a
// project that is not there; whoever concludes something from it has to know that those are.
func absent(err error) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == http.StatusNotFound && len(answer.Errors) > 0 && answer.Errors[0].Reason == "notFound"
}

// conflicts reports whether the API says that the name is taken.
func conflicts(err error) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == http.StatusConflict
}
