package instrument

import "github.com/egress-proxies/egress-proxies-operator/internal/provider"

// Why a guard turns calls away.
const (
	// RefusedBusy: as many calls are in flight as the target may have.
	RefusedBusy = "busy"
	// RefusedUnreachable and RefusedDenied: the target's gate is shut.
	RefusedUnreachable = "unreachable"
	RefusedDenied      = "denied"
	// RefusedRetired: the provider is being replaced by another.
	RefusedRetired = "retired"
)

// RefusalRecorder counts the calls that a guard turns away.
type RefusalRecorder interface {
	// CallRefused is told of one by the entry's name and one of the Refused constants. It must not block.
	CallRefused(providerName, why string)
}

// OnRefusal has r told of every call that is not let through.
func OnRefusal(r RefusalRecorder) GuardOption {
	return func(g *guarded) { g.refusals = r }
}

// Stats is what a guard knows of its targets at one instant.
type Stats struct {
	// InFlight are the calls and passes that have a place at some target.
	InFlight int
	// Unreachable and Denied are the targets whose gate is shut. Lists count as one.
	Unreachable, Denied int
}

// StatsOf returns the stats of p's guard; ok is false where p has none. It does not block on calls.
func StatsOf(p provider.Provider) (s Stats, ok bool) {
	g := guardOf(p)
	if g == nil {
		return s, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.InFlight = g.inUse
	for _, t := range g.targets {
		switch t.gate.shut {
		case shutSilent:
			s.Unreachable++
		case shutDenied:
			s.Denied++
		case shutNot:
		}
	}
	return s, true
}

// refused counts a call that is not let through.
func (g *guarded) refused(why string) {
	if g.refusals != nil {
		g.refusals.CallRefused(g.name, why)
	}
}

// word is how a refusal counts.
func (r refusal) word() string {
	switch r.shut {
	case shutSilent:
		return RefusedUnreachable
	case shutDenied:
		return RefusedDenied
	case shutNot:
	}
	return RefusedBusy
}
