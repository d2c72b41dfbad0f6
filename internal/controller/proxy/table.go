package proxy

import (
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// sight is what a pass saw under the recorded ID.
type sight string

const (
	sightNoAttempt    sight = "no attempt on record"
	sightNotFound     sight = "NotFound"
	sightNothingYet   sight = "Provisioning, the backend knows nothing yet"
	sightProvisioning sight = "Provisioning"
	sightRunning      sight = "Running, as desired"
	sightDrifted      sight = "Running, other spec mark or replace asked"
	sightStopped      sight = "Stopped or Terminated"
	sightDeleting     sight = "Deleting"
	sightFailedLeft   sight = "Failed, something left"
	sightFailedClean  sight = "Failed, nothing left"
	sightUnknown      sight = "Unknown"
	sightOlder        sight = "an older attempt"
	sightNewer        sight = "a newer attempt"
	sightConflict     sight = "Conflict"
	// sightConflictEarly: foreign, but a creation of ours may still be on its way.
	sightConflictEarly sight = "Conflict, own absence not proven yet"
	sightError         sight = "an error"
)

// step is what a pass does about it.
type step string

const (
	// stepCreateNext: plan, write ID and attempt + 1, create.
	stepCreateNext step = "write the next attempt, create"
	// stepResume: write a new requestedAt, create the same attempt; once per answer that got lost.
	stepResume step = "write a new requestedAt, create the same attempt, once"
	// stepPoll: look again; what has not come up within the provisioning time-out is given up.
	stepPoll step = "poll; past the provisioning time-out as with one that failed"
	// stepAwait: look again.
	stepAwait step = "poll"
	// stepSettle: take address and condition over; nothing to do.
	stepSettle step = "take the address over; Unhealthy for too long: as with another spec mark"
	// stepDelete: delete what was seen, by its identity.
	stepDelete step = "delete by identity"
	// stepGiveUp: delete what never ran; what did is replaced like one that stopped, for a backend may reboot or evict
	// everything at once.
	stepGiveUp step = "delete by identity; one that ran before as if it had stopped"
	// stepReplace: check that a new instance can be made, take a place of the budget, drain, then delete.
	stepReplace step = "plan, take a place of the budget, drain, delete by identity"
	// stepReplaceDead: take a place of the budget, then delete; what dies young comes back with growing waits.
	stepReplaceDead step = "take a place of the budget, delete by identity; early deaths come back with backoff"
	// stepHold: touch nothing, say why, look again slowly.
	stepHold step = "hold, say why"
	// stepRetryLater: wait out the failure, then stepCreateNext.
	stepRetryLater step = "wait as the error's class asks, then write the next attempt"
	// stepRestored: read live; take the found attempt over if the record is still older, else drop the pass.
	stepRestored step = "live read; take the found attempt over if the record is still older"
	// stepRelease: remove the finalizer if a live list shows no other instance of the UID.
	stepRelease step = "release once a live list shows no instance of the UID"
)

// row is one line of the state table.
type row struct {
	seen     sight
	living   step
	deleting step
}

// rows returns the state table: what is done about each sight while the Proxy lives and while it is being deleted. The
// design's explicit-state model was checked over exactly these rows; change them only with it.
func rows() []row {
	return []row{
		{sightNoAttempt, stepCreateNext, stepRelease},
		{sightNotFound, stepCreateNext, stepRelease},
		{sightNothingYet, stepResume, stepAwait},
		{sightProvisioning, stepPoll, stepDelete},
		{sightRunning, stepSettle, stepDelete},
		{sightDrifted, stepReplace, stepDelete},
		{sightStopped, stepReplaceDead, stepDelete},
		{sightDeleting, stepAwait, stepAwait},
		{sightFailedLeft, stepGiveUp, stepDelete},
		{sightFailedClean, stepRetryLater, stepRelease},
		{sightUnknown, stepHold, stepDelete},
		{sightOlder, stepDelete, stepDelete},
		{sightNewer, stepRestored, stepDelete},
		{sightConflict, stepHold, stepRelease},
		{sightConflictEarly, stepHold, stepAwait},
		{sightError, stepHold, stepHold},
	}
}

// decide returns the table's answer.
func decide(seen sight, deleting bool) step {
	for _, r := range rows() {
		if r.seen == seen {
			if deleting {
				return r.deleting
			}
			return r.living
		}
	}
	return stepHold
}

// look turns the answer of a Get into a sight.
func look(ref provider.Ref, inst *provider.Instance, err error) sight {
	if err != nil {
		switch provider.Class(err) {
		case provider.ErrNotFound:
			return sightNotFound
		case provider.ErrConflict:
			if provider.Reason(err) == provider.ReasonAbsenceUnproven {
				return sightConflictEarly
			}
			return sightConflict
		}
		return sightError
	}
	// Only what is visible can be of another attempt.
	if inst.Identity != "" && inst.Marks.Attempt != ref.Attempt {
		if inst.Marks.Attempt < ref.Attempt {
			return sightOlder
		}
		return sightNewer
	}
	switch inst.State {
	case provider.StateProvisioning:
		if inst.Identity == "" && inst.Marks == (provider.Marks{}) {
			return sightNothingYet
		}
		return sightProvisioning
	case provider.StateRunning:
		return sightRunning
	case provider.StateStopped, provider.StateTerminated:
		return sightStopped
	case provider.StateDeleting:
		return sightDeleting
	case provider.StateFailed:
		if inst.Left {
			return sightFailedLeft
		}
		return sightFailedClean
	case provider.StateUnknown:
		// As is every state that has no name here.
	}
	return sightUnknown
}
