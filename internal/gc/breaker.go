package gc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// The breaker's thresholds. Up to alwaysFew deletions are ordinary in any fleet; beyond it a tenth is. A fleet of one or
// two may go as a whole, since losing it is what deleting one or two Proxies looks like.
const (
	alwaysFew     = 10
	ordinaryShare = 10 // one in so many
	wholeFleet    = 3
)

// trips reports whether deleting doomed of so many instances is more than an ordinary day brings. living is how many of
// them have a Proxy: only those make the rest less than all. Otherwise an orphan that is not due yet would let through a
// fleet that was held without it.
func trips(doomed, instances, living int) bool {
	return doomed > max(alwaysFew, instances/ordinaryShare) || doomed >= wholeFleet && living == 0
}

// digest names a set of orphans, whatever its order: 16 hex digits. What it is made of says where each stands, which of
// the instances that can ever stand there it is, and whose it was.
func digest(orphans []Orphan) string {
	lines := make([]string, 0, len(orphans))
	for _, o := range orphans {
		lines = append(lines, fmt.Sprintf("%q %q %q\n", o.ID, o.Identity, o.UID))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:8])
}

// breaker decides whether the doomed may be deleted and publishes what it holds. m remembers what was released: a set
// too large for one sweep, or not gone from a lagging list yet, stays released while it shrinks.
func (c *Collector) breaker(ctx context.Context, r *ProviderReport, m *memory, doomed []Orphan, instances int) (pass bool) {
	if !trips(len(doomed), instances, r.Verdicts[Live]) || m.covers(doomed) {
		c.closeBreaker(r.Name, m)
		return true
	}
	sum := digest(doomed)
	health := c.health(ctx, r.Name, m)
	if c.o.Approve == sum || c.approves(ctx, health, sum, m) {
		ctrl.LoggerFrom(ctx).Info("WARNING: the orphan breaker lets an approved set through", "provider", r.Name, "digest", sum, "orphans", len(doomed))
		if !c.o.DryRun {
			m.release(doomed)
		}
		c.closeBreaker(r.Name, m)
		return true
	}
	r.Held, r.Digest = doomed, sum
	ctrl.LoggerFrom(ctx).Info("WARNING: the orphan breaker holds: too many instances would be deleted at once. "+
		"Look at them; if all may go, approve the digest",
		"provider", r.Name, "digest", sum, "orphans", len(doomed), "instances", instances)
	if m.held != sum { // who they are is said once
		for _, o := range doomed {
			ctrl.LoggerFrom(ctx).Info("orphan held back", o.logged(r.Name)...)
		}
	}
	m.held = sum
	c.o.Metrics.BreakerHeld(r.Name, len(doomed), sum)
	c.o.Events.Eventf(regarding(r.Name, health), nil, corev1.EventTypeWarning, "OrphanBreakerOpen", "CollectOrphans",
		"%d of %d instances have no Proxy; none is deleted. If all of them may go, approve this set: annotate this object with %s=%s, or use --gc-approve",
		len(doomed), instances, AnnotationApprove, sum)
	return false
}

// regarding is what an Event about the entry refers to: its ProviderHealth. With the UID, tools find the Event from there;
// with a resourceVersion each would be taken for a new one. Where there is no such object the name has to do.
func regarding(name string, health *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	about.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProviderHealth"))
	if health != nil {
		about.UID = health.UID
	}
	return about
}

func (c *Collector) closeBreaker(name string, m *memory) {
	if m.held != "" {
		m.held = ""
		c.o.Metrics.BreakerHeld(name, 0, "")
	}
}

// memory is what the collector keeps of one provider between sweeps.
type memory struct {
	// dead is what had no Proxy in the last sweep; empty after a gap.
	dead set[sighting]
	// released is what was approved and is still listed.
	released set[sighting]
	// held is the digest of what the breaker holds; empty while it holds nothing.
	held string
	// said is what the log says of a useless approval; empty for nothing.
	said string
}

// covers reports whether all of the orphans were released already.
func (m *memory) covers(orphans []Orphan) bool {
	return !slices.ContainsFunc(orphans, func(o Orphan) bool { return !m.released.has(o.sighting()) })
}

func (m *memory) release(orphans []Orphan) {
	m.released = set[sighting]{}
	for _, o := range orphans {
		m.released.add(o.sighting())
	}
}

// saw takes in what this sweep found dead and forgets what it did not find.
func (m *memory) saw(dead set[sighting]) {
	m.dead = dead
	for s := range m.released {
		if !dead.has(s) {
			delete(m.released, s)
		}
	}
}
