//go:build e2e

package kubernetes

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnOrphanIsCollected takes a Proxy away behind the operator's back, and keeps Kubernetes from collecting its Pod.
func TestAnOrphanIsCollected(t *testing.T) {
	f := newFleet(t)
	f.proxy("dead")
	f.proxy("alive")
	p, _ := f.isReady("dead", 1)
	lives, _ := f.isReady("alive", 1)
	orphan, living := f.pod(p), f.pod(lives)

	must(t, f.stopOperator())
	must(t, f.client.Delete(t.Context(), p, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	wait(t, 30*time.Second, "the dead Proxy being gone", func() string {
		// The garbage collector of Kubernetes takes its own finalizer away, and ours is bypassed.
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`))
		err := f.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)
		if apierrors.IsNotFound(err) {
			return ""
		}
		must(t, err)
		if len(p.Finalizers) == 1 && p.Finalizers[0] != metav1.FinalizerOrphanDependents {
			if err := f.client.Patch(t.Context(), p, patch); client.IgnoreNotFound(err) != nil {
				return err.Error()
			}
		}
		return "it is still there"
	})
	must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan))
	if len(orphan.OwnerReferences) != 0 || orphan.DeletionTimestamp != nil {
		t.Fatalf("the Pod is no orphan: owners %v, deleted %v", orphan.OwnerReferences, orphan.DeletionTimestamp)
	}
	must(t, f.startOperator())
	took := wait(t, 3*time.Minute, "the orphan being collected", func() string {
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan); !apierrors.IsNotFound(err) {
			return "it is still there"
		}
		return ""
	})
	if now := f.pod(f.get("alive")); now.UID != living.UID || now.DeletionTimestamp != nil {
		t.Error("the living one was touched")
	}
	proved(t, "a Pod whose Proxy went with its finalizer bypassed and its dependents orphaned is collected after %s; another Proxy's Pod lives on", took.Round(time.Second))
}
