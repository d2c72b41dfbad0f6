package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode says who keeps the proxy alive.
// +kubebuilder:validation:Enum=Managed;External
type Mode string

const (
	// ModeManaged proxies are created, watched and deleted by the operator through a provider.
	ModeManaged Mode = "Managed"
	// ModeExternal proxies exist elsewhere; the operator only probes and leases them.
	ModeExternal Mode = "External"
)

// Proxy is one egress proxy with its own exit.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=epx,categories=egress
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Latency",type=integer,JSONPath=`.status.latencyMillis`,description="milliseconds of the last reported probe"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=1
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.placement.zone`,priority=1
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=`.status.providerID`,priority=1
// +kubebuilder:selectablefield:JSONPath=`.spec.provider`
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
type Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user asks for.
	// +required
	Spec ProxySpec `json:"spec"`
	// status is what the operator last saw.
	// +optional
	Status ProxyStatus `json:"status,omitempty"`
}

// ProxyList is a list of Proxies.
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Proxy `json:"items"`
}

// ProxySpec is what the user asks for.
//
// The rules here speak of several fields at once; what concerns one field alone sits at that field, so that a stored
// object which breaks a newer rule can still be changed elsewhere. No rule may fail to evaluate on any value: the API
// server forgives a broken rule on an untouched subtree, but never one that ended in an error, so a stored object would
// then be stuck (ratcheting: https://github.com/kubernetes/enhancements/issues/4008).
//
// Nothing here says that provider cannot be added or removed: mode decides whether it is there, and mode is immutable.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'Managed' || has(self.provider)",message="provider is required when mode is Managed",reason=FieldValueRequired,fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || has(self.endpoint)",message="endpoint is required when mode is External",reason=FieldValueRequired,fieldPath=".endpoint"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Managed' || !has(self.endpoint)",message="endpoint is forbidden when mode is Managed",reason=FieldValueForbidden,fieldPath=".endpoint"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.provider)",message="provider is forbidden when mode is External",reason=FieldValueForbidden,fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.placement)",message="placement is forbidden when mode is External",reason=FieldValueForbidden,fieldPath=".placement"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.cloudInit)",message="cloudInit is forbidden when mode is External",reason=FieldValueForbidden,fieldPath=".cloudInit"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.port)",message="port is forbidden when mode is External: it is part of endpoint",reason=FieldValueForbidden,fieldPath=".port"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.replaceUnhealthyAfter)",message="replaceUnhealthyAfter is forbidden when mode is External",reason=FieldValueForbidden,fieldPath=".replaceUnhealthyAfter"
type ProxySpec struct {
	// mode says who keeps the proxy alive. It cannot be changed.
	// +kubebuilder:default=Managed
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode is immutable"
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// provider is the name of an entry in the operator's providers configuration. It cannot be changed.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="provider is immutable"
	// +optional
	Provider string `json:"provider,omitempty"`

	// placement says where and on what the instance runs. Which members count depends on the provider.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// cloudInit is the user-data of the instance.
	// +optional
	CloudInit *CloudInit `json:"cloudInit,omitempty"`

	// port is where the proxy listens; 3128 when unset.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`

	// endpoint is the address of an External proxy.
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// attributes are what crawlers select by. Keys and values are shaped like those of labels.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="attribute keys must be shaped like label keys: [prefix/]name, the name at most 63 letters, digits, '-', '_' and '.'",messageExpression=`"attribute keys must be shaped like label keys: [prefix/]name, the name at most 63 letters, digits, '-', '_' and '.'; wrong: '" + self.filter(k, format.qualifiedName().validate(k).hasValue())[0] + "'"`
	// +optional
	Attributes map[string]AttributeValue `json:"attributes,omitempty"`

	// maxConcurrentLeases bounds the leases held on the proxy at one time; unset means no bound.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxConcurrentLeases *int32 `json:"maxConcurrentLeases,omitempty"`

	// cordoned keeps the proxy running and probed but offers it to nobody new.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`

	// replaceUnhealthyAfter replaces the instance after it was Unhealthy for that long; unset means never.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$') || (duration(self) >= duration('1m') && duration(self) <= duration('720h'))",message="replaceUnhealthyAfter must be between 1m and 720h"
	// +optional
	ReplaceUnhealthyAfter *Duration `json:"replaceUnhealthyAfter,omitempty"`

	// auth names the credentials that the proxy asks of its clients.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// healthCheck says how the proxy is probed. Absent, null and {} mean the same: all defaults.
	// +nullable
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`
}

// AttributeValue is shaped like a label value.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type AttributeValue string

// Placement says where and on what an instance runs.
type Placement struct {
	// region is the provider's name of a region.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	Region string `json:"region,omitempty"`
	// zone is the provider's name of a zone or host.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	Zone string `json:"zone,omitempty"`
	// machineType is the provider's name of a machine shape.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	MachineType string `json:"machineType,omitempty"`
	// image is the provider's name or address of an image.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9_.:/@]+$`
	// +optional
	Image string `json:"image,omitempty"`
}

// CloudInit is a user-data template: given inline or in a Secret.
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.secretRef)",message="exactly one of inline and secretRef must be set"
type CloudInit struct {
	// inline is the template itself.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Inline string `json:"inline,omitempty"`
	// secretRef names a Secret of the Proxy's namespace, labelled crawl.example.com/cloud-init: "true".
	// +optional
	SecretRef *SecretKeyRef `json:"secretRef,omitempty"`
}

// SecretKeyRef names one key of a Secret in the namespace of the object that holds the reference.
type SecretKeyRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Name string `json:"name"`
	// key inside the Secret; user-data when unset.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	// +optional
	Key string `json:"key,omitempty"`
}

// Endpoint is the address of an External proxy.
type Endpoint struct {
	// host is an IPv4 address, an IPv6 address without brackets or zone and not IPv4-mapped, or a DNS name in lower case
	// without a trailing dot.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || (!format.dns1123Subdomain().validate(self).hasValue() && self.split('.').all(l, size(l) <= 63) && !self.matches('(^|[.])([0-9]+|0x[0-9a-f]*)$'))",message="host must be an IPv4 address, an IPv6 address (no brackets, no zone, not IPv4-mapped), or a lower-case DNS name whose last label is not a number; the port goes into port"
	// +required
	Host string `json:"host"`
	// port of the proxy.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// scheme in which clients speak to the proxy.
	// +kubebuilder:validation:Enum=http
	// +kubebuilder:default=http
	// +optional
	Scheme string `json:"scheme,omitempty"`
}

// Auth names the credentials that a proxy asks of its clients.
type Auth struct {
	// secretRef names a Secret of type kubernetes.io/basic-auth, labelled crawl.example.com/proxy-auth: "true".
	// +required
	SecretRef SecretRef `json:"secretRef"`
}

// SecretRef names a Secret in the namespace of the object that holds the reference.
type SecretRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Name string `json:"name"`
}

// HealthCheck says how a proxy is probed.
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || !self.timeout.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$') || duration(self.timeout) > duration('24h') || (has(self.interval) && (!self.interval.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$') || duration(self.interval) < duration('1s'))) || duration(self.timeout) <= duration(has(self.interval) ? self.interval : '30s')",message="timeout must not be longer than interval",messageExpression="'timeout ' + self.timeout + ' must not be longer than interval ' + (has(self.interval) ? self.interval : '30s, the default')",fieldPath=".timeout"
type HealthCheck struct {
	// url is fetched through the proxy; https://www.gstatic.com/generate_204 when unset.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^(?i:https?)://[]A-Za-z0-9._~:[-]+([/?][!-\"$-~]*)?$') && url(self).getHostname() != '' && (url(self).getPort() == '' || (url(self).getPort().size() <= 5 && int(url(self).getPort()) >= 1 && int(url(self).getPort()) <= 65535))",message="url must be an absolute http or https URL in ASCII with a host and, if any, a port from 1 to 65535, without user and without fragment"
	// +optional
	URL string `json:"url,omitempty"`
	// expectedStatus is the HTTP status that counts as healthy; unset means 204 for the default URL, else any 2xx.
	// +kubebuilder:validation:Minimum=200
	// +kubebuilder:validation:Maximum=599
	// +optional
	ExpectedStatus *int32 `json:"expectedStatus,omitempty"`
	// interval between probes; 30s when unset.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="interval must be between 1s and 24h"
	// +optional
	Interval *Duration `json:"interval,omitempty"`
	// timeout bounds one whole probe; the smaller of 10s and interval when unset.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,4}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(ms|m|s)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="timeout must be between 1s and 24h"
	// +optional
	Timeout *Duration `json:"timeout,omitempty"`
	// successThreshold is how many successes in a row turn the proxy Healthy; 1 when unset.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// failureThreshold is how many failures in a row turn the proxy Unhealthy; 3 when unset.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
	// tls adjusts how the certificate of an https url is verified.
	// +nullable
	// +optional
	TLS *HealthCheckTLS `json:"tls,omitempty"`
}

// HealthCheckTLS adjusts how the certificate of the probe target is verified.
//
// The rule on caBundle sits here so that its message does not repeat the bundle, and works on the text: with
// `format: byte` a stored value that is not base64 would end every evaluation in an error.
//
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || (self.caBundle.matches('^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$') && self.caBundle.size() / 4 * 3 - (self.caBundle.endsWith('==') ? 2 : (self.caBundle.endsWith('=') ? 1 : 0)) <= 65536)",message="caBundle must be base64 on one line of at most 65536 bytes",fieldPath=".caBundle"
type HealthCheckTLS struct {
	// caBundle holds PEM certificates trusted besides the system's, at most 64 KiB before base64.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:MaxLength=87384
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
	// insecureSkipVerify turns verification off.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}
