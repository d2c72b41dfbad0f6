package gcpemulator

import (
	"net/http"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// Stockout is how the operation of an insert ends in a zone that has no room.
func Stockout(zone string) *Late {
	return &Late{Errors: []OperationError{{
		"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
		"The zone '" + zone + "' does not have enough resources available to fulfill the request.  '(resource type:compute)'.",
	}}}
}

// statusOf is the HTTP status that an operation carries with an error of that code.
// https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability and
// https://cloud.google.com/compute/resource-usage
func statusOf(code string) int32 {
	switch code {
	case "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "STOCKOUT", "INTERNAL_ERROR":
		return http.StatusServiceUnavailable
	case "QUOTA_EXCEEDED", "PERMISSIONS_ERROR":
		return http.StatusForbidden
	case "RESOURCE_NOT_FOUND":
		return http.StatusNotFound
	case "OPERATION_CANCELED_BY_USER", "RESOURCE_ALREADY_EXISTS":
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

func httpMessage(status int32) string {
	switch status {
	case http.StatusServiceUnavailable:
		return "SERVICE UNAVAILABLE"
	case http.StatusForbidden:
		return "FORBIDDEN"
	case http.StatusNotFound:
		return "NOT FOUND"
	case http.StatusConflict:
		return "CONFLICT"
	}
	return "BAD REQUEST"
}

// details are what the API attaches to an error of that code: https://github.com/kubernetes/k8s.io/issues/9834 and
// https://github.com/CCExtractor/sample-platform/issues/901 show some in full.
func (op *operation) details(code string) []*computepb.ErrorDetails {
	switch code {
	case "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS":
		return []*computepb.ErrorDetails{
			{Help: &computepb.Help{Links: []*computepb.HelpLink{{
				Description: proto.String("Troubleshooting documentation"), Url: proto.String("https://cloud.google.com/compute/docs/resource-error"),
			}}}},
			{LocalizedMessage: &computepb.LocalizedMessage{
				Locale: proto.String("en-US"), Message: proto.String("This machine type is currently unavailable in the zone."),
			}},
			{ErrorInfo: &computepb.ErrorInfo{
				Domain: proto.String("compute.googleapis.com"), Reason: proto.String("resource_availability"),
				Metadatas: map[string]string{"zone": last(op.scope), "zonesAvailable": "", "attachment": ""},
			}},
		}
	case "QUOTA_EXCEEDED":
		return []*computepb.ErrorDetails{{QuotaInfo: &computepb.QuotaExceededInfo{
			MetricName: proto.String("compute.googleapis.com/cpus"), LimitName: proto.String("CPUS-per-project-region"),
		}}}
	}
	return nil
}
