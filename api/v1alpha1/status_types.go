package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase sums a Proxy up for people. Programs wait on the Ready condition.
type Phase string

// The phases. Pending: no attempt yet. Provisioning: an attempt is on its way or not yet probed.
const (
	PhasePending      Phase = "Pending"
	PhaseProvisioning Phase = "Provisioning"
	PhaseReady        Phase = "Ready"
	PhaseUnhealthy    Phase = "Unhealthy"
	PhaseFailed       Phase = "Failed"
	PhaseDeleting     Phase = "Deleting"
)

// ProxyStatus is what the operator last saw.
//
// Go reads less than `format: date-time` admits: no lower-case letters, no odd mark before the fraction, and exactly six
// digits of it in a MicroTime. One stored object that Go cannot read keeps every informer from syncing, so the times
// here have patterns as well. The rule on conditions does the same for a type that is not ours: it is true of
// every time, but to evaluate it the API server has to read the time as Go does.
type ProxyStatus struct {
	// phase sums the conditions up for people.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// observedGeneration is the generation of the spec that this status speaks of.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// providerID names the only place where the instance can be, scope included. It is written before the instance is
	// created.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// instance is the record of the creation under providerID.
	// +optional
	Instance *InstanceRecord `json:"instance,omitempty"`
	// ip is where clients reach the proxy: an address, or the host of an External one.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IP string `json:"ip,omitempty"`
	// port is where clients reach the proxy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// exitAddress is the source address that targets see, where the provider knows it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ExitAddress string `json:"exitAddress,omitempty"`
	// latencyMillis is the duration of the last reported probe in milliseconds.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LatencyMillis *int64 `json:"latencyMillis,omitempty"`
	// lastHealthCheckTime is the time of the last probe that changed this status, not of the last probe.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$`
	// +optional
	LastHealthCheckTime *metav1.Time `json:"lastHealthCheckTime,omitempty"`
	// drainingSince is when the instance was withdrawn in order to be replaced.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$`
	// +optional
	DrainingSince *metav1.MicroTime `json:"drainingSince,omitempty"`
	// replacingSince is when the replacement of the instance began. It holds one of the provider's places for
	// replacements until the new instance is healthy.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$`
	// +optional
	ReplacingSince *metav1.MicroTime `json:"replacingSince,omitempty"`
	// latch holds back further attempts after a failure.
	// +optional
	Latch *Latch `json:"latch,omitempty"`
	// replaced is the value of the replace annotation that the recorded attempt answers.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Replaced string `json:"replaced,omitempty"`
	// recreations counts instances in a row that died young.
	// +optional
	Recreations *Recreations `json:"recreations,omitempty"`
	// conditions are Provisioned, Healthy and Ready.
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.lastTransitionTime >= timestamp('0001-01-01T00:00:00Z'))",message="lastTransitionTime must be a time in the form 2006-01-02T15:04:05Z"
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InstanceRecord is the intent written before each creation.
type InstanceRecord struct {
	// attempt numbers the instances of this Proxy. It grows only when the one before is proven absent.
	// +kubebuilder:validation:Minimum=1
	Attempt int64 `json:"attempt"`
	// requestedAt opens the window in which a creation may be sent and may still become visible.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$`
	RequestedAt metav1.MicroTime `json:"requestedAt"`
	// ran says that the instance has been seen running: from then on it is replaced, within the budget, not given up.
	// +optional
	Ran bool `json:"ran,omitempty"`
}

// Latch holds back further attempts after a failure until something changes or its time comes.
type Latch struct {
	// reason is the Provisioned reason that set the latch.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// specMark is the desired spec mark that failed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	SpecMark string `json:"specMark,omitempty"`
	// revision is that of the provider entry that failed, and of the credentials.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Revision string `json:"revision,omitempty"`
	// attempts counts failures in a row.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// nextRetryTime is when it is tried again anyway.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$`
	// +optional
	NextRetryTime *metav1.MicroTime `json:"nextRetryTime,omitempty"`
}

// Recreations counts instances in a row that died young.
type Recreations struct {
	// count of them.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Count int32 `json:"count"`
	// lastTime is when the last one was found dead.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$`
	LastTime metav1.MicroTime `json:"lastTime"`
}
