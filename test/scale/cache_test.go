package scale

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// newCache returns controller-runtime's own cache over the server, of the objects that carry the label where one is given.
func newCache(s *server, scheme *runtime.Scheme, label string) (cache.Cache, error) {
	selector := labels.Everything()
	if label != "" {
		selector = labels.SelectorFromSet(labels.Set{label: v1alpha1.LabelValueTrue})
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion().WithKind("Proxy"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return cache.New(&rest.Config{}, cache.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: &http.Client{},
		NewInformer: func(_ toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
			k := kindProxy
			if _, ok := of.(*corev1.Secret); ok {
				k = kindSecret
			}
			return toolscache.NewSharedIndexInformer(lister{server: s, kind: k, selector: selector}, of, resync, by)
		},
	})
}

// lister is where an informer gets its objects from.
type lister struct {
	server   *server
	kind     kind
	selector labels.Selector
}

// IsWatchListSemanticsUnSupported makes the reflector list first and watch then.
func (l lister) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (l lister) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (l lister) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	all, version := l.server.list(l.kind)
	if l.kind == kindSecret {
		list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
		for _, o := range all {
			if l.wants(o) {
				list.Items = append(list.Items, *o.DeepCopyObject().(*corev1.Secret))
			}
		}
		return list, nil
	}
	list := &v1alpha1.ProxyList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, o := range all {
		list.Items = append(list.Items, *o.DeepCopyObject().(*v1alpha1.Proxy))
	}
	return list, nil
}

// Watch implements cache.ListerWatcher.
func (l lister) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (l lister) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	all := l.server.watch(l.kind, o.ResourceVersion)
	// As on a real server, what loses the label is deleted for those who watch the label.
	return watch.Filter(all, func(e watch.Event) (watch.Event, bool) {
		if obj, ok := e.Object.(client.Object); ok && !l.wants(obj) {
			e.Type = watch.Deleted
		}
		return e, true
	}), nil
}

func (l lister) wants(o client.Object) bool { return l.selector.Matches(labels.Set(o.GetLabels())) }
