package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderHealth says how the backend of one entry of the providers' configuration is. It is named after the entry. The
// operator makes, writes and deletes these objects; nobody else needs to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=providerhealths,scope=Cluster,shortName=eph,categories=egress
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="ConfigurationAccepted")].status`,description="whether the present content of the file is in use"
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.status.summary`,description="targets that are ready, of all"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Checked",type=date,JSONPath=`.status.checkedTime`,priority=1,description="age of the check that is shown; an unchanged one is shown anew every --provider-health-report-interval"
// +kubebuilder:printcolumn:name="Configuration",type=string,JSONPath=`.status.conditions[?(@.type=="ConfigurationAccepted")].message`,priority=1,description="why the present content of the file is not in use"
// +kubebuilder:printcolumn:name="Worst",type=string,JSONPath=`.status.worstTarget`,priority=1,description="the target that has been out of order for longest"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type ProviderHealth struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the last checks showed.
	// +optional
	Status ProviderHealthStatus `json:"status,omitempty"`
}

// ProviderHealthList is a list of ProviderHealths.
// +kubebuilder:object:root=true
type ProviderHealthList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderHealth `json:"items"`
}

// ProviderHealthStatus is what the last checks showed. It is written when something changes, and every report interval; that
// latency or details differ is no change.
type ProviderHealthStatus struct {
	// type of the entry.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Type string `json:"type,omitempty"`
	// revision of the entry's configuration that was checked.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Revision string `json:"revision,omitempty"`
	// checkedTime is when the check ended that this status shows.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$`
	// +optional
	CheckedTime *metav1.Time `json:"checkedTime,omitempty"`
	// targetsReady counts the targets that are ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TargetsReady int32 `json:"targetsReady"`
	// targetsTotal counts all targets.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TargetsTotal int32 `json:"targetsTotal"`
	// targetsOmitted counts those that are missing in targets because the list is full.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TargetsOmitted int32 `json:"targetsOmitted,omitempty"`
	// summary is targetsReady of targetsTotal, for people: "30/50".
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Summary string `json:"summary,omitempty"`
	// worstTarget is the target that has been out of order for longest; empty where all are ready.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	WorstTarget string `json:"worstTarget,omitempty"`
	// targets are the parts of the backend that can fail by themselves, sorted by name. With more than 512, those that are
	// not ready come first; targetsOmitted says how many are missing. The details of all of them together are at most 512
	// KiB; those of targets that are ready go first.
	// +listType=map
	// +listMapKey=target
	// +kubebuilder:validation:MaxItems=512
	// +optional
	Targets []ProviderTarget `json:"targets,omitempty"`
	// conditions are Ready (every target is) and ConfigurationAccepted (the file's present content is in use).
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.lastTransitionTime >= timestamp('0001-01-01T00:00:00Z'))",message="lastTransitionTime must be a time in the form 2006-01-02T15:04:05Z"
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProviderTarget is one part of a backend that can fail by itself: an API server, a project, a host.
type ProviderTarget struct {
	// target is its name, unique within the entry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Target string `json:"target"`
	// ready says that instances can be made and looked after there.
	Ready bool `json:"ready"`
	// reason says in one word how it is; Reachable when it is ready.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message says more; empty where there is nothing to add.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
	// latencyMillis is how long the target took to answer, in milliseconds.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LatencyMillis int64 `json:"latencyMillis"`
	// details are facts for whoever looks for a fault, such as versions and what is left of a quota.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Details map[string]ProviderDetail `json:"details,omitempty"`
	// lastTransitionTime is when ready last changed.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// ProviderDetail is one fact about a target.
// +kubebuilder:validation:MaxLength=256
type ProviderDetail string
