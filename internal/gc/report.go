package gc

import (
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Skip says why a sweep did not get to judging anything.
type Skip string

// The reasons to skip a sweep; empty for none.
const (
	// SkipRestricted: the operator is restricted to a namespace and was not told to collect there.
	SkipRestricted Skip = "restricted"
	// SkipProxies: the Proxies could not be read completely.
	SkipProxies Skip = "proxies"
	// SkipStopped: the context ended.
	SkipStopped Skip = "stopped"
)

// Report is what one sweep did.
type Report struct {
	Skipped Skip
	// Providers in the order of their names; empty when the sweep was skipped.
	Providers []ProviderReport
}

// Of returns the report about one provider; the zero value where there is none.
func (r Report) Of(name string) ProviderReport {
	for _, p := range r.Providers {
		if p.Name == name {
			return p
		}
	}
	return ProviderReport{}
}

// ProviderReport is what one sweep did with one provider.
type ProviderReport struct {
	Name string
	// Err is why the provider was left out: its instances could not be listed.
	Err error
	// Verdicts counts the listed instances by what was thought of them.
	Verdicts map[Verdict]int
	// Deleted orphans, those whose deletion the backend accepted. In a dry run nothing is, and Spared has them.
	Deleted []Orphan
	// Spared orphans are those that only the dry run saved.
	Spared []Orphan
	// Failed orphans are those whose Proxy could not be read again or whose deletion failed, and those behind them on a
	// target that no longer answers.
	Failed []Orphan
	// Revived orphans are those whose Proxy the last look found after all.
	Revived []Orphan
	// Held orphans are kept back by the breaker under Digest.
	Held   []Orphan
	Digest string
}

// Orphan is an instance without a Proxy.
type Orphan struct {
	ID       string
	Identity string
	UID      string
	// Namespace and Name of the Proxy that it was made for.
	Namespace string
	Name      string
	Attempt   int64
}

func orphanOf(inst provider.Instance) Orphan {
	return Orphan{
		ID: inst.ID, Identity: inst.Identity, UID: inst.Marks.UID,
		Namespace: inst.Marks.Namespace, Name: inst.Marks.Name, Attempt: inst.Marks.Attempt,
	}
}

func (o Orphan) sighting() sighting { return sighting{id: o.ID, identity: o.Identity, uid: o.UID} }

// ref names exactly the listed instance. No creation is on record for it any more, hence no RequestedAt.
func (o Orphan) ref() provider.Ref {
	return provider.Ref{ID: o.ID, UID: o.UID, Attempt: o.Attempt, Identity: o.Identity}
}
