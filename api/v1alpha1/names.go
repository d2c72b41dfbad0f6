package v1alpha1

// Names of the marks that the operator and its users put on objects.
const (
	// FinalizerInstance keeps a Managed Proxy until its instance is proven absent.
	FinalizerInstance = Group + "/instance"

	// AnnotationSkipCleanup with the value "true" releases a Proxy without touching the backend.
	AnnotationSkipCleanup = Group + "/skip-cleanup"
	// AnnotationReplace asks for a new instance, once per new non-empty value; that a creation failed does not hold it back.
	AnnotationReplace = Group + "/replace"

	// LabelCloudInit with the value "true" lets the operator read a Secret as a cloud-init template.
	LabelCloudInit = Group + "/cloud-init"
	// LabelProxyAuth with the value "true" lets the operator read a Secret as proxy credentials.
	LabelProxyAuth = Group + "/proxy-auth"
	// LabelValueTrue is the only value with which the labels above count.
	LabelValueTrue = "true"
)

// Condition types of a Proxy.
const (
	// ConditionProvisioned says whether the instance exists as the spec wants it.
	ConditionProvisioned = "Provisioned"
	// ConditionHealthy says whether probes pass through the proxy.
	ConditionHealthy = "Healthy"
	// ConditionReady is True when both of the others are. Programs wait on it.
	ConditionReady = "Ready"
)

// Reasons of the Provisioned condition.
const (
	ReasonCreated          = "Created"
	ReasonExternalEndpoint = "ExternalEndpoint"
	ReasonUpdateBlocked    = "UpdateBlocked"

	ReasonProvisioning          = "Provisioning"
	ReasonDraining              = "Draining"
	ReasonReplacing             = "Replacing"
	ReasonDeleting              = "Deleting"
	ReasonQuotaExceeded         = "QuotaExceeded"
	ReasonPermanentError        = "PermanentError"
	ReasonConflict              = "Conflict"
	ReasonScopeMismatch         = "ScopeMismatch"
	ReasonCloudInitError        = "CloudInitError"
	ReasonAuthError             = "AuthError"
	ReasonOpenProxyRefused      = "OpenProxyRefused"
	ReasonProviderNotConfigured = "ProviderNotConfigured"
	ReasonProviderUnavailable   = "ProviderUnavailable"

	ReasonUnobserved = "Unobserved"
)

// Reasons of the Healthy condition.
const (
	ReasonProbeSucceeded = "ProbeSucceeded"

	ReasonDialFailed       = "DialFailed"
	ReasonProxyAuthFailed  = "ProxyAuthFailed"
	ReasonProxyRefused     = "ProxyRefused"
	ReasonTLSFailed        = "TLSFailed"
	ReasonTimeout          = "Timeout"
	ReasonUnexpectedStatus = "UnexpectedStatus"
	ReasonBadResponse      = "BadResponse"

	ReasonNotProbed            = "NotProbed"
	ReasonSharedCauseSuspected = "SharedCauseSuspected"
)

// ReasonReady is the reason of the Ready condition when it is True; otherwise it carries the reason of the first of
// Provisioned and Healthy that is not.
const ReasonReady = "Ready"
