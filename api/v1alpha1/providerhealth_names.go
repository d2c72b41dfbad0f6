package v1alpha1

// LabelInstallation says which installation of the operator made an object. It touches no object of another one.
const LabelInstallation = Group + "/installation"

// Condition types of a ProviderHealth, besides ConditionReady: True when every target is ready.
const (
	// ConditionConfigurationAccepted says whether the present content of the providers' file is in use for the entry.
	ConditionConfigurationAccepted = "ConfigurationAccepted"
)

// Reasons of the Ready condition of a ProviderHealth. When targets are not ready and all give the same reason, the condition
// has that one (package provider).
const (
	ReasonTargetsReady     = "TargetsReady"
	ReasonTargetsNotReady  = "TargetsNotReady"
	ReasonNoTargets        = "NoTargets"
	ReasonCheckUnsupported = "CheckUnsupported"
	// ReasonCheckPanicked is also one of a target: the check ended with an internal error.
	ReasonCheckPanicked = "CheckPanicked"
)

// Reasons of the ConfigurationAccepted condition.
const (
	ReasonConfigurationAccepted = "Accepted"
	ReasonInvalidConfiguration  = "InvalidConfiguration"
	ReasonConfigurationInUse    = "InUse"
)

// Bounds of a ProviderHealth's status, as the schema has them: lengths in bytes suffice for lengths in characters.
const (
	MaxProviderTargets = 512
	MaxTargetDetails   = 32
	MaxTargetName      = 253
	MaxTargetReason    = 64
	MaxTargetMessage   = 512
	MaxTargetDetail    = 256
)
