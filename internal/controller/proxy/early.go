package proxy

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

const (
	// earlyDeath is the age up to which an instance's end counts as early.
	earlyDeath = 10 * time.Minute
	// The first early death in a row is mended at once, as a container's first crash is; from the second on the wait
	// starts at earlyWait and doubles up to earlyLimit.
	earlyWait, earlyLimit = 30 * time.Second, time.Hour

	earlyDeathMessage = "instances of this Proxy die young; the next one is created with a growing wait"
)

// noteDeath counts an instance that ended by itself, born at born; the zero time counts as young.
func (ps *pass) noteDeath(born time.Time) {
	if ref, ok := ps.ref(); ok && born.IsZero() {
		born = ref.RequestedAt
	}
	r := ptr.Deref(ps.p.Status.Recreations, v1alpha1.Recreations{})
	if ps.r.Clock.Since(born) >= earlyDeath {
		r.Count = 0
	} else {
		r.Count++
	}
	r.LastTime = ps.now()
	ps.p.Status.Recreations = &r
}

// noteVanished counts an instance that ran and is gone without the operator's doing.
func (ps *pass) noteVanished() {
	if ps.seen == sightNotFound && meta.IsStatusConditionTrue(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned) {
		ps.noteDeath(time.Time{})
	}
}

// noteGone notes that an instance that ran is gone by others' hands, for an Event that follows the write.
func (ps *pass) noteGone() {
	rec := ps.p.Status.Instance
	if ps.seen != sightNotFound || !rec.Ran || ps.p.Status.DrainingSince != nil {
		return
	}
	tell := true
	ps.removal(func(r *removal) { tell = !r.sent })
	ps.r.memory.with(ps.key, func(e *entry) { tell = tell && e.toldGone != rec.Attempt })
	if tell {
		ps.gone = fmt.Sprintf("the instance is gone, and not by the operator's doing: %s, attempt %d", ps.p.Status.ProviderID, rec.Attempt)
	}
}

// earlyDeathWait returns how long the next creation has to wait because instances died young.
func (ps *pass) earlyDeathWait() time.Duration {
	r := ps.p.Status.Recreations
	if r == nil || r.Count < 2 {
		return 0
	}
	wait := min(earlyWait<<min(r.Count-2, 20), earlyLimit)
	return wait - ps.r.Clock.Since(r.LastTime.Time)
}
