package proxy

import (
	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Recorder takes in what metrics show of passes. Its methods must not block.
type Recorder interface {
	// Pass is told of every pass: what it saw, one of Sights, and how it ended, one of the Pass constants.
	Pass(seen, result string)
	// Failure is told of every failure that a pass has met at a backend, by the reason that the condition shows for it where it
	// keeps the instance from being provisioned.
	Failure(providerName, reason string)
	// Replacement is told of every instance that is withdrawn to be replaced, by one of the Cause constants.
	Replacement(providerName, cause string)
	// InstanceLost is told of every instance that went without the operator's doing.
	InstanceLost(providerName string)
}

// How passes end.
const (
	PassOK = "ok"
	// PassDropped: somebody wrote in between, so that nothing of it counts.
	PassDropped = "dropped"
	// PassError: the API server could not be read or written.
	PassError = "error"
)

// What instances are replaced for.
const (
	CauseSpec       = "spec"
	CauseAnnotation = "annotation"
	CauseUnhealthy  = "unhealthy"
	CauseStopped    = "stopped"
)

// seenExternal and seenNothing are what passes see that look at no instance, or did not get to that.
const (
	seenExternal = "external"
	seenNothing  = "nothing"
)

// Sights returns all that a pass can have seen, as Recorder gets it.
func Sights() []string {
	out := []string{seenExternal, seenNothing}
	for _, row := range rows() {
		out = append(out, row.seen.label())
	}
	return out
}

// label is the sight as the value of a label.
func (s sight) label() string {
	switch s {
	case sightNoAttempt:
		return "no_attempt"
	case sightNotFound:
		return "not_found"
	case sightNothingYet:
		return "nothing_yet"
	case sightProvisioning:
		return "provisioning"
	case sightRunning:
		return "running"
	case sightDrifted:
		return "drifted"
	case sightStopped:
		return "stopped"
	case sightDeleting:
		return "deleting"
	case sightFailedLeft:
		return "failed_left"
	case sightFailedClean:
		return "failed_clean"
	case sightUnknown:
		return "unknown"
	case sightOlder:
		return "older_attempt"
	case sightNewer:
		return "newer_attempt"
	case sightConflict:
		return "conflict"
	case sightConflictEarly:
		return "conflict_early"
	case sightError:
		return "error"
	}
	return seenNothing
}

// sightLabel is what the pass has seen as the value of a label.
func (ps *pass) sightLabel() string {
	if !ps.p.Managed() && ps.p.Status.Instance == nil {
		return seenExternal
	}
	return ps.seen.label()
}

// cause is why the instance in sight is replaced.
func (ps *pass) cause() string {
	switch {
	case ps.replaceAsked():
		return CauseAnnotation
	case ps.seen == sightDrifted:
		return CauseSpec
	case ps.seen == sightRunning:
		return CauseUnhealthy
	}
	return CauseStopped
}

// count takes in what a successful write has changed.
func (ps *pass) count(before, after *v1alpha1.Proxy) {
	if before.Status.DrainingSince == nil && after.Status.DrainingSince != nil {
		ps.metrics().Replacement(ps.handle.Name, ps.cause())
	}
}

func (ps *pass) metrics() Recorder {
	if ps.r.Metrics == nil {
		return unrecorded{}
	}
	return ps.r.Metrics
}

type unrecorded struct{}

func (unrecorded) Pass(string, string)        {}
func (unrecorded) Failure(string, string)     {}
func (unrecorded) Replacement(string, string) {}
func (unrecorded) InstanceLost(string)        {}
