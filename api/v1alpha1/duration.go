package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Duration is a length of time such as 90s, 1.5h or 1h30m: up to four decimal numbers, each with the unit h, m, s or ms,
// of at most four digits before the point for hours and seven for the others.
//
// The rule admits only what both Go and CEL can decode, as the same length and without overflow: `format: duration`
// would also store values that Go cannot read, and one such object keeps every informer from syncing. It is CEL and not
// a pattern for the sake of its message. A field of this type adds its bounds in a rule that holds wherever this one
// does not, so that a malformed value gets one message and no evaluation ends in an error.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$')",message="must be a duration such as 90s, 1.5h or 1h30m, in the units h, m, s and ms and at most 9999h"
type Duration struct {
	metav1.Duration `json:",inline"`
}

// NewDuration returns d as an optional field's value.
func NewDuration(d time.Duration) *Duration {
	return &Duration{Duration: metav1.Duration{Duration: d}}
}
