package proxy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

const (
	// apiTimeout bounds one call to the API server. Writes run on a context of their own: losing the leadership or the
	// process's end must not lose what a backend just answered.
	apiTimeout = 10 * time.Second
	// messageInterval is how often at most a status is written of which only messages changed: a backend that words
	// its progress anew on every poll must not become a stream of writes. Once an instance is settled, the first such
	// change is written at once.
	messageInterval = time.Minute
)

// write puts the staged status on record if it differs. Every write is resourceVersion-checked; a conflict comes back
// as such and drops the pass. Events follow a successful write.
func (ps *pass) write(ctx context.Context) error {
	ps.summarize()
	if equality.Semantic.DeepEqual(ps.base.Status, ps.p.Status) {
		return nil
	}
	if !ps.onlyMessagesDiffer() {
		return ps.patchStatus(ctx)
	}
	if wait := messageInterval - ps.r.Clock.Since(ps.lastWording()); wait > 0 {
		ps.p.Status = *ps.base.Status.DeepCopy()
		ps.soon(wait)
		return nil
	}
	ps.r.memory.with(ps.key, func(e *entry) {
		e.messageWritten = ps.r.Clock.Now()
		if turned, stuck := ps.turned(); turned && stuck {
			e.stuckTold = e.messageWritten
		}
	})
	return ps.patchStatus(ctx)
}

// turned reports whether a removal has come to be refused, or to get on again, and which of the two.
func (ps *pass) turned() (turned, stuck bool) {
	before := meta.FindStatusCondition(ps.base.Status.Conditions, v1alpha1.ConditionProvisioned)
	now := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionProvisioned)
	return isStuck(before) != isStuck(now), isStuck(now)
}

// record writes the staged status and then asks for what next says: the write may have put a message off.
func (ps *pass) record(ctx context.Context, next func() ctrl.Result) (ctrl.Result, error) {
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return next(), nil
}

// lastWording returns since when the wording of the status counts as told: messages that come from a backend's progress
// wait for their turn after any write, those about a settled instance after the last of their own kind, that a removal is
// refused after that was told the last time, and those that tell a user what to mend, or that it is mended, not at all.
func (ps *pass) lastWording() (t time.Time) {
	c := meta.FindStatusCondition(ps.p.Status.Conditions, v1alpha1.ConditionProvisioned)
	switch {
	case c == nil:
		return time.Time{}
	case c.Status == metav1.ConditionTrue:
		return ps.r.memory.lastWrite(ps.key, true)
	}
	if turned, stuck := ps.turned(); turned {
		if stuck {
			ps.r.memory.with(ps.key, func(e *entry) { t = e.stuckTold })
		}
		return t
	}
	switch c.Reason {
	case v1alpha1.ReasonProvisioning, v1alpha1.ReasonReplacing, v1alpha1.ReasonDeleting, v1alpha1.ReasonDraining:
		return ps.r.memory.lastWrite(ps.key, false)
	}
	return time.Time{}
}

// writeToAct is write for a pass that is going to act. It proves that the pass saw the newest object: by its write or,
// where nothing changed, by a live read that shows the same resourceVersion.
func (ps *pass) writeToAct(ctx context.Context) error {
	ps.summarize()
	if !equality.Semantic.DeepEqual(ps.base.Status, ps.p.Status) {
		return ps.patchStatus(ctx)
	}
	live, err := ps.live(ctx)
	if err != nil {
		return err
	}
	if live.UID != ps.p.UID || live.ResourceVersion != ps.p.ResourceVersion {
		return conflict(ps.key.Name, "the object changed since this pass read it")
	}
	return nil
}

func (ps *pass) patchStatus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
	defer cancel()
	before := ps.base
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	_, err := inSpan(ctx, spanStatus, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, ps.r.Client.Status().Patch(ctx, ps.p, patch)
	})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	ps.r.memory.with(ps.key, func(e *entry) { e.written = ps.r.Clock.Now() })
	ps.base = ps.p.DeepCopy()
	ps.count(before, ps.p)
	ps.announce(ctx, before, ps.p)
	return nil
}

// patchMeta writes finalizers, resourceVersion-checked.
func (ps *pass) patchMeta(ctx context.Context, change func(*v1alpha1.Proxy)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
	defer cancel()
	// Only metadata goes into this patch, and the answer must not wipe what the pass has staged in the status.
	target := ps.base.DeepCopy()
	change(target)
	patch := client.MergeFromWithOptions(ps.base, client.MergeFromWithOptimisticLock{})
	if err := ps.r.Client.Patch(ctx, target, patch); err != nil {
		return fmt.Errorf("writing the finalizer: %w", err)
	}
	staged := ps.p.Status
	ps.base, ps.p = target.DeepCopy(), target
	ps.p.Status = staged
	return nil
}

func (ps *pass) onlyMessagesDiffer() bool {
	a, b := ps.base.Status.DeepCopy(), ps.p.Status.DeepCopy()
	for _, s := range []*v1alpha1.ProxyStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].Message = ""
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

func conflict(name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.Group, Resource: "proxies"}, name, fmt.Errorf("%s", why))
}
