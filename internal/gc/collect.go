package gc

import (
	"cmp"
	"context"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// collect judges what one provider listed and deletes its orphans.
func (c *Collector) collect(ctx context.Context, h registry.Handle, l listing, live set[string], now time.Time) ProviderReport {
	r := ProviderReport{Name: h.Name, Err: l.err}
	m := c.memory[h.Name]
	log := ctrl.LoggerFrom(ctx)
	if l.err != nil {
		m.dead = nil // a gap
		log.Info("listing instances failed; the provider is left out of this sweep",
			"provider", h.Name, "class", provider.ClassName(l.err), "error", l.err.Error())
		c.o.Metrics.CollectionFailed(h.Name, OpList)
		return r
	}
	if len(l.Unread) > 0 {
		log.Info("scopes could not be read; what is in them is left alone", "provider", h.Name, "unread", l.Unread)
	}
	doomed, instances, dead := sift(l.Instances, evidence{
		owner: c.o.Owner, namespace: c.o.Namespace, unread: l.Unread, live: live, before: m.dead, now: now, minAge: c.o.MinAge,
	}, &r)
	m.saw(dead)
	c.o.Metrics.Orphans(h.Name, len(dead))
	log.V(1).Info("instances judged", "provider", h.Name, "verdicts", r.Verdicts)
	if c.breaker(ctx, &r, m, doomed, instances) {
		c.removeAll(ctx, h, doomed, &r)
	}
	return r
}

// sift judges every instance. It returns the orphans in the order of their IDs, how many instances they are among, and
// everything that is dead. Neither foreign instances nor those on their way out swell the number that the breaker
// compares with.
func sift(listed []provider.Instance, e evidence, r *ProviderReport) (doomed []Orphan, instances int, dead set[sighting]) {
	r.Verdicts, dead = map[Verdict]int{}, set[sighting]{}
	for _, inst := range listed {
		v := judge(inst, e)
		r.Verdicts[v]++
		switch v {
		case Foreign, Elsewhere, Unread, Leaving:
		default:
			instances++
		}
		if v.dead() {
			dead.add(sightingOf(inst))
		}
		if v == Orphaned {
			doomed = append(doomed, orphanOf(inst))
		}
	}
	slices.SortFunc(doomed, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Identity, b.Identity))
	})
	return doomed, instances, dead
}

// removeAll deletes one orphan after the other. A target that does not answer or refuses the operator is not tried again
// in this sweep: one dead host must not use up the time of all others.
func (c *Collector) removeAll(ctx context.Context, h registry.Handle, doomed []Orphan, r *ProviderReport) {
	targets, _ := instrument.As[provider.Targeter](h.Provider)
	broken := set[string]{}
	for _, o := range doomed {
		target := ""
		if targets != nil {
			target = targets.Target(o.ref())
		}
		if ctx.Err() != nil || broken.has(target) {
			r.Failed = append(r.Failed, o)
			continue
		}
		if !c.remove(ctx, h, o, r) && target != "" {
			broken.add(target)
		}
	}
}

// remove looks for the orphan's Proxy for the last time and deletes the orphan. It reports false when the backend is not
// worth another call.
func (c *Collector) remove(ctx context.Context, h registry.Handle, o Orphan, r *ProviderReport) bool {
	log := ctrl.LoggerFrom(ctx).WithValues(o.logged(h.Name)...)
	gone, err := c.gone(ctx, o)
	switch {
	case err != nil:
		log.Info("the orphan's Proxy could not be read again; the orphan stays", "error", err.Error())
		c.o.Metrics.CollectionFailed(h.Name, OpRead)
		r.Failed = append(r.Failed, o)
		return true
	case !gone:
		log.Info("the orphan's Proxy exists after all; the instance stays")
		r.Revived = append(r.Revived, o)
		return true
	case c.o.DryRun:
		log.Info("WARNING: this orphan would be deleted (dry run)")
		r.Spared = append(r.Spared, o)
		return true
	}
	// Logged before the call: a process that dies in it should have said so.
	log.Info("WARNING: deleting an orphan: an instance of this installation whose Proxy is gone")
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	if err := h.Provider.Delete(ctx, o.ref()); err != nil {
		log.Info("deleting the orphan failed; the next sweep tries again", "class", provider.ClassName(err), "error", err.Error())
		c.o.Metrics.CollectionFailed(h.Name, OpDelete)
		r.Failed = append(r.Failed, o)
		class := provider.Class(err)
		return class != provider.ErrTransient && class != provider.ErrDenied
	}
	c.o.Metrics.OrphanDeleted(h.Name)
	r.Deleted = append(r.Deleted, o)
	return true
}

// logged returns what identifies the orphan in a log line.
func (o Orphan) logged(providerName string) []any {
	return []any{
		"provider", providerName, "providerID", o.ID, "identity", o.Identity, "UID", o.UID, "attempt", o.Attempt,
		"proxy", o.Namespace + "/" + o.Name,
	}
}
