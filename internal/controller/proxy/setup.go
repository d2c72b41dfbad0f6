package proxy

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Names of the cache's indices over Proxies.
const (
	IndexProvider        = "spec.provider"
	IndexCloudInitSecret = "spec.cloudInit.secretRef.name"
	IndexAuthSecret      = "spec.auth.secretRef.name"
)

// Waits of a Proxy whose pass could not read or write the API server.
const errorBackoff, errorBackoffLimit = 10 * time.Millisecond, 30 * time.Second

// getter is client.Reader's Get.
type getter func(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error

// AddIndices registers the indices that the reconciler lists by. It does not block.
func AddIndices(ctx context.Context, indexer client.FieldIndexer) error {
	fields := map[string]func(*v1alpha1.Proxy) string{
		IndexProvider: func(p *v1alpha1.Proxy) string { return p.Spec.Provider },
		IndexCloudInitSecret: func(p *v1alpha1.Proxy) string {
			if ci := p.Spec.CloudInit; ci != nil && ci.SecretRef != nil {
				return ci.SecretRef.Name
			}
			return ""
		},
		IndexAuthSecret: func(p *v1alpha1.Proxy) string {
			if p.Spec.Auth == nil {
				return ""
			}
			return p.Spec.Auth.SecretRef.Name
		},
	}
	for name, field := range fields {
		err := indexer.IndexField(ctx, &v1alpha1.Proxy{}, name, func(o client.Object) []string {
			if v := field(o.(*v1alpha1.Proxy)); v != "" { //nolint:forcetypeassert // the index is over Proxies
				return []string{v}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Wakers are what wakes Proxies besides their own changes.
type Wakers struct {
	// CloudInit and Auth hold the Secrets of their label.
	CloudInit cache.Cache
	Auth      cache.Cache
	// Triggers is fed by observation and health.
	Triggers *Triggers
}

// What the manifests have to grant. Secrets are watched by label, but RBAC cannot select by label: whoever takes over the
// operator's service account reads every Secret of the namespaces that it is granted for.
//
// +kubebuilder:rbac:groups=crawl.example.com,resources=proxies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=crawl.example.com,resources=proxies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller. workers bounds the passes that run side by side.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, w Wakers, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("proxy").
		For(&v1alpha1.Proxy{}).
		WatchesRawSource(source.Kind(w.CloudInit, &corev1.Secret{}, r.proxiesOf(IndexCloudInitSecret))).
		WatchesRawSource(source.Kind(w.Auth, &corev1.Secret{}, r.proxiesOf(IndexAuthSecret))).
		WatchesRawSource(w.Triggers).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// The default grows to a quarter of an hour: so long after an outage of the API server nothing would be written.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](errorBackoff, errorBackoffLimit),
		}).
		Complete(traced{r})
}

// proxiesOf maps a Secret to the Proxies that refer to it.
func (r *Reconciler) proxiesOf(index string) handler.TypedEventHandler[*corev1.Secret, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, s *corev1.Secret) []reconcile.Request {
		var list v1alpha1.ProxyList
		if err := r.Client.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingFields{index: s.Name}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "listing the Proxies of a Secret", "secret", s.Name)
			return nil
		}
		out := make([]reconcile.Request, len(list.Items))
		for i := range list.Items {
			out[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
		}
		return out
	})
}

// Triggers lets other parts of the process wake Proxies. The controller's queue takes them: it keeps each key once,
// loses none and never makes the caller wait.
type Triggers struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	early map[types.NamespacedName]struct{}
}

// NewTriggers returns triggers that collect keys until the controller starts.
func NewTriggers() *Triggers { return &Triggers{early: map[types.NamespacedName]struct{}{}} }

// Wake asks for a pass over key. It does not block.
func (t *Triggers) Wake(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		t.early[key] = struct{}{}
		return
	}
	t.queue.Add(reconcile.Request{NamespacedName: key})
}

// Start implements source.Source: the controller hands over its queue.
func (t *Triggers) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = queue
	for key := range t.early {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	t.early = nil
	return nil
}

// String names the source in logs.
func (t *Triggers) String() string { return "observation and health" }
