package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func answer(code int, reasons ...string) *googleapi.Error {
	e := &googleapi.Error{Code: code, Message: "m", Header: http.Header{}}
	for _, r := range reasons {
		e.Errors = append(e.Errors, googleapi.ErrorItem{Reason: r})
	}
	return e
}

func TestWhatAnAnswerMeans(t *testing.T) {
	dial := &url.Error{Op: "Get", URL: "https://api/", Err: syscall.ECONNREFUSED}
	inner := func(err error) error { return &url.Error{Op: "Get", URL: "https://api/", Err: err} }
	for _, tc := range []struct {
		reason string
		verb   verb
		err    error
		class  error
		why    string
	}{
		{"401", verbGet, answer(401, "authError"), provider.ErrDenied, ""},
		{"401 on a creation", verbCreate, answer(401, "authError"), provider.ErrDenied, ""},
		{"401 that is a page", verbList, answer(401), provider.ErrDenied, ""},
		{"403 on a creation is that Proxy's", verbCreate, answer(403, "forbidden"), provider.ErrPermanent, ""},
		{"403 on a read", verbGet, answer(403, "forbidden"), provider.ErrDenied, ""},
		{"403 on a list", verbList, answer(403, "forbidden"), provider.ErrDenied, ""},
		{"403 on a removal", verbDelete, answer(403, "forbidden"), provider.ErrPermanent, ""},
		{"403 on a change", verbUpdate, answer(403, "forbidden"), provider.ErrPermanent, ""},
		{"403, the API is off", verbList, answer(403, "accessNotConfigured"), provider.ErrDenied, ""},
		{"403, quota", verbCreate, answer(403, "quotaExceeded"), provider.ErrQuotaExceeded, ""},
		{"403, quota on a read", verbGet, answer(403, "quotaExceeded"), provider.ErrQuotaExceeded, ""},
		{"403, too fast", verbCreate, answer(403, "rateLimitExceeded"), provider.ErrTransient, ""},
		{"403, too fast for one user", verbList, answer(403, "userRateLimitExceeded"), provider.ErrTransient, ""},
		{"403 that is a page", verbGet, answer(403), provider.ErrDenied, ""},
		{"404 on a creation", verbCreate, answer(404, "notFound"), provider.ErrPermanent, ""},
		{"404 on a creation that is a page", verbCreate, answer(404), provider.ErrTransient, ""},
		{"404 on a read", verbGet, answer(404, "notFound"), provider.ErrTransient, ""},
		{"404 on a list", verbList, answer(404, "notFound"), provider.ErrTransient, ""},
		{"404 on a change", verbUpdate, answer(404, "notFound"), provider.ErrTransient, ""},
		{"409", verbCreate, answer(409, "alreadyExists"), provider.ErrTransient, ""},
		{"412", verbCreate, answer(412, "conditionNotMet"), provider.ErrPermanent, ""},
		{"400", verbCreate, answer(400, "invalid"), provider.ErrPermanent, ""},
		{"400, unheard of", verbCreate, answer(400, "x"), provider.ErrPermanent, ""},
		{"400, not ready", verbUpdate, answer(400, "resourceNotReady"), provider.ErrTransient, ""},
		{"400, in use", verbDelete, answer(400, "resourceInUseByAnotherResource"), provider.ErrTransient, ""},
		{"413", verbCreate, answer(413), provider.ErrPermanent, ""},
		{"408", verbCreate, answer(408), provider.ErrTransient, ""},
		{"429", verbCreate, answer(429, "rateLimitExceeded"), provider.ErrTransient, ""},
		{"429 that is a page", verbGet, answer(429), provider.ErrTransient, ""},
		{"500", verbCreate, answer(500, "internalError"), provider.ErrTransient, ""},
		{"502 that is a page", verbGet, answer(502), provider.ErrTransient, ""},
		{"503", verbGet, answer(503, "backendError"), provider.ErrTransient, ""},
		{"503 without room", verbCreate, answer(503, "ZONE_RESOURCE_POOL_EXHAUSTED"), provider.ErrQuotaExceeded, ""},
		{"a redirect", verbGet, answer(302), provider.ErrTransient, ""},
		{"no connection", verbGet, dial, provider.ErrTransient, provider.ReasonUnreachable},
		{"cancelled", verbGet, inner(context.Canceled), provider.ErrTransient, ""},
		{"out of time", verbCreate, inner(context.DeadlineExceeded), provider.ErrTransient, ""},
		{"no credentials", verbGet, inner(&credentialsError{errors.New("x")}), provider.ErrDenied, ""},
		{"no token now", verbGet, inner(&tokenError{errors.New("x")}), provider.ErrTransient, provider.ReasonUnreachable},
		{"not an answer of the API", verbGet, errors.New("invalid character '<'"), provider.ErrTransient, ""},
		{"somebody else's rule", verbGet, &foreignRuleError{"x"}, provider.ErrPermanent, ""},
		{"no such zone", verbGet, &noZoneError{"x", "p"}, provider.ErrPermanent, ""},
	} {
		for _, err := range []error{&callError{tc.verb, "instances", "x", tc.err}, fmt.Errorf("x: %w", &callError{tc.verb, "instances", "x", tc.err})} {
			if got, want := classify(err), (verdict{class: tc.class, reason: tc.why}); got != want {
				t.Errorf("%s: %v: got %+v, want %+v", tc.reason, err, got, want)
			}
		}
	}
}

// A failure means the same whether the API says so at once or with the operation.
func TestAtOnceAndLaterMeanTheSame(t *testing.T) {
	for _, tc := range []struct {
		code   string
		status int
		class  error
	}{
		{"ZONE_RESOURCE_POOL_EXHAUSTED", 503, provider.ErrQuotaExceeded},
		{"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, provider.ErrQuotaExceeded},
		{"REGION_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, provider.ErrQuotaExceeded},
		{"STOCKOUT", 503, provider.ErrQuotaExceeded},
		{"resourcesExhausted", 503, provider.ErrQuotaExceeded},
		{"QUOTA_EXCEEDED", 403, provider.ErrQuotaExceeded},
		{"quotaExceeded", 403, provider.ErrQuotaExceeded},
		{"LIMIT_EXCEEDED", 400, provider.ErrQuotaExceeded},
		{"IP_SPACE_EXHAUSTED", 400, provider.ErrQuotaExceeded},
		{"IP_SPACE_EXHAUSTED_WITH_DETAILS", 400, provider.ErrQuotaExceeded},
		{"INVALID_FIELD_VALUE", 400, provider.ErrPermanent},
		{"invalid", 400, provider.ErrPermanent},
		{"INVALID_USAGE", 400, provider.ErrPermanent},
		{"UNSUPPORTED_OPERATION", 400, provider.ErrPermanent},
		{"RESOURCE_NOT_FOUND", 404, provider.ErrPermanent},
		{"notFound", 404, provider.ErrPermanent},
		{"CONDITION_NOT_MET", 412, provider.ErrPermanent},
		{"conditionNotMet", 412, provider.ErrPermanent},
		{"PERMISSIONS_ERROR", 403, provider.ErrPermanent},
		{"billingNotEnabled", 403, provider.ErrPermanent},
		{"RATE_LIMIT_EXCEEDED", 403, provider.ErrTransient},
		{"rateLimitExceeded", 403, provider.ErrTransient},
		{"userRateLimitExceeded", 403, provider.ErrTransient},
		{"RESOURCE_NOT_READY", 400, provider.ErrTransient},
		{"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", 400, provider.ErrTransient},
		{"RESOURCE_ALREADY_EXISTS", 409, provider.ErrTransient},
		{"OPERATION_CANCELED_BY_USER", 409, provider.ErrTransient},
		{"INTERNAL_ERROR", 500, provider.ErrTransient},
		{"backendError", 503, provider.ErrTransient},
		{"NEVER_HEARD_OF", 400, provider.ErrPermanent},
		{"NEVER_HEARD_OF", 403, provider.ErrPermanent},
		{"NEVER_HEARD_OF", 404, provider.ErrPermanent},
		{"NEVER_HEARD_OF", 409, provider.ErrTransient},
		{"NEVER_HEARD_OF", 429, provider.ErrTransient},
		{"NEVER_HEARD_OF", 503, provider.ErrTransient},
	} {
		now := classify(&callError{verbCreate, "instances", "x", answer(tc.status, tc.code)})
		then := classify(&operationError{codes: []string{tc.code}, status: tc.status})
		if now.class != tc.class || then.class != tc.class {
			t.Errorf("%s with %d: %v at once, %v later, want %v", tc.code, tc.status, now.class, then.class, tc.class)
		}
	}
	if v := classify(&operationError{codes: []string{"NEVER_HEARD_OF"}}); v.class != provider.ErrTransient {
		t.Errorf("without a status: %v", v.class)
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "soon": 0, "1.5": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0, "-99999999999999999999": 0,
		"1": time.Second, " 7 ": 7 * time.Second, "3600": time.Hour, "3601": time.Hour, "99999999999": time.Hour, "99999999999999999999": time.Hour,
	} {
		e := answer(429, "rateLimitExceeded")
		e.Header.Set("Retry-After", text)
		if got := classify(&callError{verbGet, "instances", "x", e}); got.retry != want || got.class != provider.ErrTransient {
			t.Errorf("%q: %+v, want %s", text, got, want)
		}
		// What does not pass by waiting is not waited for.
		e.Code = 400
		if got := classify(&callError{verbGet, "instances", "x", e}); text != "" && got.class == provider.ErrPermanent && got.retry != 0 {
			t.Errorf("%q with 400: %+v", text, got)
		}
	}
}

func TestAbsentIsTheAPIsOwnWord(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{answer(404, "notFound"), true}, {&callError{verbGet, "instances", "x", answer(404, "notFound")}, true},
		{answer(404), false}, {answer(404, "forbidden"), false}, {answer(403, "notFound"), false}, {answer(410, "notFound"), false},
		{errors.New("notFound"), false}, {nil, false},
	} {
		if got := absent(tc.err); got != tc.want {
			t.Errorf("%v: %t", tc.err, got)
		}
	}
}

// What an error says can be shown to anybody, again and again.
func TestWhatErrorsSay(t *testing.T) {
	page := answer(502)
	page.Message, page.Body = "", "<html>sentinel</html>"
	value := answer(400, "invalid")
	value.Message = "Invalid value for field 'resource.metadata.items[0].value': '#cloud-config\npassword: sentinel'. Too bad."
	long := answer(400, "invalid")
	long.Message = strings.Repeat("x", 10_000)
	for _, tc := range []struct {
		err  error
		says string
	}{
		{&callError{verbGet, "instances", "x", page}, "get instances x: 502 Bad Gateway"},
		{&callError{verbList, "instances", "", answer(403, "forbidden", "other")}, "list instances: 403 m (forbidden, other)"},
		{&callError{verbCreate, "instances", "x", value}, "insert instances x: 400 Invalid value for field 'resource.metadata.items[0].value …"},
		{&operationError{text: "INVALID_FIELD_VALUE: Invalid value for field 'resource.Metadata.items[0].value': 'sentinel'."}, "INVALID_FIELD_VALUE: Invalid value for field 'resource.Metadata.items[0].value …"},
		{&callError{verbGet, "instances", "x", &url.Error{Op: "Get", URL: "https://api/x?token=sentinel", Err: syscall.ECONNRESET}}, `get instances x: Get "https://api/x": connection reset by peer`},
	} {
		if got := said(tc.err); got.Error() != tc.says || !errors.Is(got, tc.err) {
			t.Errorf("%q, want %q", got, tc.says)
		}
	}
	if got := said(&callError{verbGet, "instances", "x", long}).Error(); len(got) > 512 {
		t.Errorf("%d bytes", len(got))
	}
}
