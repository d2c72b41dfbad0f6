package gc

import (
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Verdict is what the collector thinks of one listed instance.
type Verdict string

// The verdicts, in the order in which they are looked for: the first that holds is given.
const (
	// Foreign: its marks are another installation's or none that this operator writes, or it stands under another name
	// than they say.
	Foreign Verdict = "foreign"
	// Elsewhere: its Proxy's namespace is not one that this operator is responsible for.
	Elsewhere Verdict = "elsewhere"
	// Unread: it lies in a scope of which the provider says that it could not be read.
	Unread Verdict = "unread"
	// Live: its Proxy exists.
	Live Verdict = "live"
	// Unidentified: its Proxy is gone, but the backend gives no identity to pin the deletion to.
	Unidentified Verdict = "unidentified"
	// Leaving: its removal is in flight.
	Leaving Verdict = "leaving"
	// Unclear: it is in a state that the operator does not know (being repaired, say). Such instances are held, never
	// destroyed, until their state is one again.
	Unclear Verdict = "unclear"
	// Young: its age is unknown or at most MinAge.
	Young Verdict = "young"
	// Fresh: it was not dead already in the previous sweep.
	Fresh Verdict = "fresh"
	// Orphaned: nothing speaks against its deletion, except perhaps the breaker.
	Orphaned Verdict = "orphaned"
)

// dead reports whether the verdict says that the instance's Proxy is gone.
func (v Verdict) dead() bool {
	return v == Leaving || v == Unclear || v == Young || v == Fresh || v == Orphaned
}

// sighting is one instance as it was listed: a place, who holds it, and for which Proxy.
type sighting struct{ id, identity, uid string }

func sightingOf(inst provider.Instance) sighting {
	return sighting{id: inst.ID, identity: inst.Identity, uid: inst.Marks.UID}
}

// set is a set of comparable things.
type set[T comparable] map[T]struct{}

func (s set[T]) add(v T)      { s[v] = struct{}{} }
func (s set[T]) has(v T) bool { _, ok := s[v]; return ok }

// evidence is everything on which instances of one provider are judged.
type evidence struct {
	owner provider.Owner
	// namespace restricts the operator; empty for all.
	namespace string
	// unread are the scopes that the provider could not read.
	unread []string
	// live are the UIDs of all Proxies, read after the instances.
	live set[string]
	// before is what was dead in the sweep before this one; empty after a gap.
	before set[sighting]
	now    time.Time
	minAge time.Duration
}

// judge decides about one instance. It is the only place where that is decided, and does nothing else.
func judge(inst provider.Instance, e evidence) Verdict {
	switch {
	case !owned(inst.Marks, e.owner):
		return Foreign
	case !provider.NamedFor(inst.ID, inst.Marks.UID):
		return Foreign
	case e.namespace != "" && inst.Marks.Namespace != e.namespace:
		return Elsewhere
	case within(inst.ID, e.unread):
		return Unread
	case e.live.has(inst.Marks.UID):
		return Live
	case inst.Identity == "":
		return Unidentified
	case inst.State == provider.StateDeleting:
		return Leaving
	case inst.State == provider.StateUnknown:
		return Unclear
	case !older(inst.CreatedAt, e.now, e.minAge):
		return Young
	case !e.before.has(sightingOf(inst)):
		return Fresh
	}
	return Orphaned
}

// owned reports whether every mark is there, could have been written by this operator, and names this installation and
// cluster. Spec marks of newer operators count.
func owned(m provider.Marks, owner provider.Owner) bool {
	return owner.Owns(m) &&
		uuid.Validate(m.UID) == nil &&
		provider.ValidSpecMark(m.Spec) &&
		len(validation.IsDNS1123Label(m.Namespace)) == 0 &&
		len(validation.IsDNS1123Subdomain(m.Name)) == 0
}

// within reports whether the ID lies in one of the scopes. Providers name a scope by one or more neighbouring segments
// of their IDs.
func within(id string, scopes []string) bool {
	for _, s := range scopes {
		if strings.Contains("/"+id+"/", "/"+strings.Trim(s, "/")+"/") {
			return true
		}
	}
	return false
}

// older reports whether something created then is older than age. An unknown time is young, and so is one to come: it
// was read wrongly, or one of the two clocks is wrong.
func older(created, now time.Time, age time.Duration) bool {
	return !created.IsZero() && now.Sub(created) > age
}
