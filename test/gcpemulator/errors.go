package gcpemulator

import (
	"fmt"
	"net/http"
)

// apiError is an answer that is none, in the shape that the API has had since long before google.rpc.Status:
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert and
// https://github.com/inspec/inspec-gcp/issues/301 for a complete one.
type apiError struct {
	code                    int
	reason, message, domain string
	status                  string // of google.rpc.Code; only some errors carry it
	retryAfter              string // the header, verbatim
	details                 []any
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.code, e.reason, e.message) }

func errNotFound(resource string) *apiError {
	return &apiError{code: http.StatusNotFound, reason: "notFound", message: "The resource '" + resource + "' was not found"}
}

func errExists(resource string) *apiError {
	return &apiError{code: http.StatusConflict, reason: "alreadyExists", message: "The resource '" + resource + "' already exists"}
}

// errInvalid is about a field of the request, spelled as the API spells it ("resource.name", "zone").
func errInvalid(field, value, why string) *apiError {
	return &apiError{
		code: http.StatusBadRequest, reason: "invalid",
		message: fmt.Sprintf("Invalid value for field '%s': '%s'. %s", field, value, why),
	}
}

func errQuota(metric string, limit float64, region string) *apiError {
	return &apiError{
		code: http.StatusForbidden, reason: "quotaExceeded", domain: "usageLimits",
		message: fmt.Sprintf("Quota '%s' exceeded.  Limit: %.1f in region %s.", metric, limit, region),
	}
}

// errUnreachable is what a zone that cannot be reached answers.
func errUnreachable(zone string) *apiError {
	return &apiError{
		code: http.StatusServiceUnavailable, reason: "backendError",
		message: "The zone '" + zone + "' is unreachable. Please try again later.", status: "UNAVAILABLE",
	}
}

// body is the error as JSON.
func (e *apiError) body() map[string]any {
	domain := e.domain
	if domain == "" {
		domain = "global"
	}
	inner := map[string]any{
		"code": e.code, "message": e.message,
		"errors": []any{map[string]any{"message": e.message, "domain": domain, "reason": e.reason}},
	}
	if e.status != "" {
		inner["status"] = e.status
	}
	if len(e.details) > 0 {
		inner["details"] = e.details
	}
	return map[string]any{"error": inner}
}
