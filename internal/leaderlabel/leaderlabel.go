// Package leaderlabel marks the Pod of the leader, so that a Service can select it alone: only the leader grants leases,
// and a rollout whose standbys were not ready would never end.
package leaderlabel

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Label is the key; its value is the leader-election ID, so that two installations in one namespace keep apart.
const Label = "crawl.example.com/leader"

const (
	// interval is how often the labels are looked at; somebody may have changed them, or the Pod of a leader that was
	// paused may have come back with its label.
	interval = 5 * time.Second
	// retry is the wait after a failure, callTimeout bounds one look.
	retry, callTimeout = 2 * time.Second, 10 * time.Second
	// soon is the wait while this process does not surely lead: the manager starts the leader's parts a moment before it
	// says so, and until the label is there the Service reaches nobody.
	soon = 100 * time.Millisecond
)

// What the manifests have to grant, in the operator's own namespace.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;patch,namespace=egress-proxies-system

// Labeler keeps the label on the leader's own Pod and off all others. It needs to list and patch Pods in Namespace.
type Labeler struct {
	// Reader reads from the API server, Writer writes to it.
	Reader client.Reader
	Writer client.Writer
	// Leading says whether this process is surely the leader: one that was paused must not take the label from its
	// successor. It must not block.
	Leading func() bool
	// Namespace and Pod name the Pod that this process runs in, ID is the leader-election ID.
	Namespace, Pod, ID string
	Clock              clock.Clock
}

// NeedLeaderElection lets only the leader label.
func (l *Labeler) NeedLeaderElection() bool { return true }

// Start labels until ctx ends, then takes the own label off and returns nil. Failures are logged and tried again.
func (l *Labeler) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("leader-label")
	failed := ""
	for {
		next := interval
		if !l.Leading() {
			next = soon
		} else if err := l.settle(ctx); err == nil {
			failed = ""
		} else if ctx.Err() == nil {
			if next = retry; err.Error() != failed {
				log.Error(err, "labelling the leader's Pod failed; the Service may reach no leader until it succeeds", "pod", l.Pod)
			}
			failed = err.Error()
		}
		timer := l.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			// The next leader would do it, too; now clients are sent elsewhere at once.
			if err := l.set(context.WithoutCancel(ctx), l.Pod, false); err != nil {
				log.V(1).Info("taking the label off failed", "pod", l.Pod, "error", err.Error())
			}
			return nil
		case <-timer.C():
		}
	}
}

// settle takes the label off every other Pod and then puts it on the own one: never are two selected for good.
func (l *Labeler) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := l.Reader.List(ctx, list, client.InNamespace(l.Namespace), client.MatchingLabels{Label: l.ID}); err != nil {
		return fmt.Errorf("listing the labelled Pods in %s: %w", l.Namespace, err)
	}
	var errs []error
	labelled := false
	for i := range list.Items {
		if name := list.Items[i].Name; name != l.Pod && l.Leading() {
			errs = append(errs, client.IgnoreNotFound(l.set(ctx, name, false)))
		} else if name == l.Pod {
			labelled = true
		}
	}
	if !labelled && l.Leading() {
		errs = append(errs, l.set(ctx, l.Pod, true))
	}
	return errors.Join(errs...)
}

// set puts the label on a Pod or takes it off.
func (l *Labeler) set(ctx context.Context, pod string, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value := "null"
	if on {
		value = fmt.Sprintf("%q", l.ID)
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: pod}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, Label, value))
	err := l.Writer.Patch(ctx, target, patch)
	if apierrors.IsNotFound(err) && !on {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching Pod %s/%s: %w", l.Namespace, pod, err)
	}
	return nil
}
