package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// sample is how many objects the bare client writes with each number of workers; as many as it takes for the rate to settle.
const sample = 1000

// bare returns how many writes a second a client makes that does nothing else: the ones that the operator makes until a Proxy is
// Ready, with the best of 1, 10 and 100 workers.
func (w *world) bare(ctx context.Context) (best float64, err error) {
	for i, workers := range []int{1, 10, 100} {
		objects := make([]*v1alpha1.Proxy, sample)
		err := each(sample, 32, func(j int) error {
			objects[j] = w.object(bareNamespace, i*sample+j)
			return w.client.Create(ctx, objects[j])
		})
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := each(sample, workers, func(j int) error { return w.live(ctx, objects[j]) }); err != nil {
			return 0, err
		}
		rate := float64(sample*len(stages())) / time.Since(began).Seconds()
		note("%d workers: %.0f writes a second", workers, rate)
		best = max(best, rate)
	}
	return best, nil
}

// stages are what a status says one after the other, in sizes like the operator's.
func stages() []string { return []string{"Provisioning", "Created", "Ready"} }

// live writes what a Proxy's life writes.
func (w *world) live(ctx context.Context, p *v1alpha1.Proxy) error {
	for i, stage := range stages() {
		before := p.DeepCopy()
		now := metav1.NewTime(time.Now())
		p.Status.ObservedGeneration, p.Status.Phase = p.Generation, v1alpha1.PhaseProvisioning
		p.Status.ProviderID = "zones/us-central1-a/instances/proxy-0123456789abcdef"
		p.Status.Conditions = nil
		for _, kind := range []string{v1alpha1.ConditionProvisioned, v1alpha1.ConditionHealthy, v1alpha1.ConditionReady} {
			p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, Reason: stage, LastTransitionTime: now, ObservedGeneration: p.Generation,
				Message: fmt.Sprintf("attempt 1 is requested (%d)", i),
			})
		}
		if err := w.client.Status().Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	return nil
}
