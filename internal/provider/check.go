package provider

import (
	"context"
	"time"
)

// Checker is implemented by providers that can say how their backend is.
type Checker interface {
	// Check asks each target with the credentials, in the scope and with the kind of call that ListByTag and Create use,
	// and returns one status for each, sorted by Target. It never fails as a whole, returns promptly once ctx ends (with
	// CheckTimeout for what has not answered), and disturbs no other call of the provider.
	Check(ctx context.Context) []TargetStatus
}

// TargetStatus says how one part of a backend is that can fail by itself: an API server, a project, a host.
type TargetStatus struct {
	// Target is unique within the provider.
	Target string
	Ready  bool
	// Reason is one of those below, or one of the provider's own where the cure is another.
	Reason string
	// Message is deterministic, at most 512 bytes and without secrets; empty where there is nothing to add.
	Message string
	// Latency is how long the target took to answer.
	Latency time.Duration
	// Details are facts for whoever looks for a fault, such as versions and what is left of a quota; at most 32 entries.
	Details map[string]string
}

// Reasons of a TargetStatus. CheckReachable alone goes with Ready.
const (
	CheckReachable    = "Reachable"
	CheckTimeout      = "Timeout"
	CheckUnreachable  = "Unreachable"
	CheckUnauthorized = "Unauthorized"
	CheckForbidden    = "Forbidden"
	CheckAPIError     = "APIError"
)
