package proxy

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// createNext opens the next attempt: the one before is proven absent.
func (ps *pass) createNext(ctx context.Context) (ctrl.Result, error) {
	attempt := int64(1)
	if rec := ps.p.Status.Instance; rec != nil {
		attempt = rec.Attempt + 1
	}
	ps.withdraw()
	ps.noteGone()
	if ps.blocked != nil {
		ps.provisioned(metav1.ConditionFalse, ps.blocked.reason, ps.blocked.message)
		ps.health()
		return ps.record(ctx, ps.steady)
	}
	if until, held := ps.held(); held {
		ps.unstick()
		ps.health()
		return ps.record(ctx, func() ctrl.Result { return after(until) })
	}
	ps.noteVanished()
	if left := ps.earlyDeathWait(); left > 0 {
		ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonReplacing, earlyDeathMessage)
		ps.health()
		return ps.record(ctx, func() ctrl.Result { return ps.again(left) })
	}
	return ps.create(ctx, attempt, "")
}

// resume repeats a creation whose answer this process never got, once.
func (ps *pass) resume(ctx context.Context) (ctrl.Result, error) {
	rec := ps.p.Status.Instance
	if ps.blocked != nil || ps.r.memory.answered(ps.key, rec.Attempt, rec.RequestedAt.Time) {
		return ps.wait(ctx)
	}
	return ps.create(ctx, rec.Attempt, ps.p.Status.ProviderID)
}

// create plans, puts {ID, attempt, requestedAt} on record and then asks the backend. With a recordedID it goes on only
// if the plan still leads there.
func (ps *pass) create(ctx context.Context, attempt int64, recordedID string) (ctrl.Result, error) {
	if full := ps.entryFull(ctx); full != nil {
		return ps.refuse(ctx, full)
	}
	if !controllerutil.ContainsFinalizer(ps.base, v1alpha1.FinalizerInstance) {
		err := ps.patchMeta(ctx, func(p *v1alpha1.Proxy) { controllerutil.AddFinalizer(p, v1alpha1.FinalizerInstance) })
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	req := ps.request()
	id, err := ps.plan(ctx)
	if busy(err) {
		ps.err = err
		return ps.queue(ctx)
	}
	if instrument.IsShut(err) {
		return ps.unavailable(ctx, err)
	}
	if err != nil {
		return ps.refuse(ctx, err)
	}
	if recordedID != "" && id != recordedID {
		return ps.wait(ctx)
	}
	if res, ok, err := ps.reserve(ctx, id); !ok {
		return res, err
	}
	st := &ps.p.Status
	st.ProviderID = id
	st.Instance = &v1alpha1.InstanceRecord{Attempt: attempt, RequestedAt: ps.now()}
	if st.Latch != nil {
		st.Latch.NextRetryTime = nil
	}
	if recordedID == "" {
		st.Replaced = ps.replaceValue()
		st.DrainingSince = nil
	}
	ps.provisioned(metav1.ConditionFalse, v1alpha1.ReasonProvisioning, fmt.Sprintf("attempt %d is requested", attempt))
	ps.health()
	if err := ps.writeToAct(ctx); err != nil {
		return ctrl.Result{}, err
	}

	ref, _ := ps.ref()
	left := ps.r.CallTimeout - ps.r.Clock.Since(ref.RequestedAt)
	cctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err = ps.handle.Provider.Create(cctx, req, ref)
	ps.r.memory.answer(ps.key, ref.Attempt, ref.RequestedAt)
	if err != nil {
		return ps.refuse(ctx, err)
	}
	if ps.creds != nil && recordedID == "" { // a creation that is repeated may have found an instance with older ones
		ps.r.memory.hand(ps.key, ref.Attempt, ps.creds.Revision)
	}
	ps.seen = sightProvisioning
	return ps.poll(ps.r.Intervals.ProvisioningPoll), nil
}

// retryLater waits out an asynchronous failure that left nothing behind.
func (ps *pass) retryLater(ctx context.Context) (ctrl.Result, error) {
	if ps.fresh() {
		ps.late = true
		return ps.refuse(ctx, ps.inst.Err)
	}
	return ps.createNext(ctx)
}

// refuse puts a failed creation on record and waits as its class asks.
func (ps *pass) refuse(ctx context.Context, err error) (ctrl.Result, error) {
	wait := ps.fail(err)
	ps.withdraw()
	ps.health()
	if err := ps.write(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return after(wait), nil
}

func (ps *pass) plan(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ps.r.CallTimeout)
	defer cancel()
	return ps.handle.Provider.Plan(ctx, ps.request())
}

// entryFull returns an error when the entry's maxInstances are all on record. An attempt on record keeps its place.
func (ps *pass) entryFull(ctx context.Context) error {
	limit := int(ps.handle.MaxInstances)
	if limit == 0 || ps.p.Status.Instance != nil {
		return nil
	}
	var list v1alpha1.ProxyList
	if err := ps.r.Client.List(ctx, &list, client.MatchingFields{IndexProvider: ps.handle.Name}); err != nil {
		return err
	}
	var recorded []types.NamespacedName
	for i := range list.Items {
		if list.Items[i].Status.Instance != nil {
			recorded = append(recorded, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	if ps.r.memory.reserve(ps.key, ps.handle.Name, limit, recorded) {
		return nil
	}
	return quota(ps.handle.Name, fmt.Errorf("all %d instances that maxInstances allows are taken", limit))
}

// now is the present in the precision that the API stores.
func (ps *pass) now() metav1.MicroTime {
	return metav1.NewMicroTime(ps.r.Clock.Now().Truncate(time.Microsecond))
}
