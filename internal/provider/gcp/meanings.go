package gcp

import (
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

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
