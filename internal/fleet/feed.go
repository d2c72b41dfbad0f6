package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Feed keeps a Store in step with the Proxies and their credentials. Make it with NewFeed.
type Feed struct {
	Store *Store
	// Proxies holds the Proxy objects, indexed by AuthIndex.
	Proxies cache.Cache
	// Secrets holds the Secrets that are labelled as proxy credentials, and no others.
	Secrets cache.Cache
	// AuthIndex is the name of the index of Proxies by the Secret in spec.auth.
	AuthIndex string

	synced chan struct{}
}

// NewFeed returns a feed that is not started yet. See the fields of Feed for the arguments.
func NewFeed(store *Store, proxies, secrets cache.Cache, authIndex string) *Feed {
	return &Feed{Store: store, Proxies: proxies, Secrets: secrets, AuthIndex: authIndex, synced: make(chan struct{})}
}

// Synced is closed once the store holds every Proxy that existed at the start.
func (f *Feed) Synced() <-chan struct{} { return f.synced }

// NeedLeaderElection lets every replica keep its read model, so that a new leader starts with a full one.
func (f *Feed) NeedLeaderElection() bool { return false }

// Start registers for events and blocks until ctx ends. Events are handled in the order in which they happened.
func (f *Feed) Start(ctx context.Context) error {
	secrets, err := f.Secrets.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("watching credentials: %w", err)
	}
	// Credentials first: a Proxy whose Secret is not there yet would be withdrawn for a moment.
	if !toolscache.WaitForCacheSync(ctx.Done(), secrets.HasSynced) {
		return ctx.Err()
	}
	proxies, err := f.Proxies.GetInformer(ctx, &v1alpha1.Proxy{})
	if err != nil {
		return fmt.Errorf("watching Proxies: %w", err)
	}
	onSecret := func(o any) { f.secretChanged(ctx, o) }
	if _, err := secrets.AddEventHandler(handler(onSecret, onSecret)); err != nil {
		return err
	}
	reg, err := proxies.AddEventHandler(handler(func(o any) { f.apply(ctx, o) }, f.remove))
	if err != nil {
		return err
	}
	if toolscache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		close(f.synced)
	}
	<-ctx.Done()
	return nil
}

func handler(changed, deleted func(any)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, o any) { changed(o) },
		DeleteFunc: func(o any) {
			if lost, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = lost.Obj
			}
			deleted(o)
		},
	}
}

func (f *Feed) apply(ctx context.Context, o any) {
	if p, ok := o.(*v1alpha1.Proxy); ok {
		f.Store.Apply(FromObject(p, f.credentials(ctx, p)))
	}
}

func (f *Feed) remove(o any) {
	if p, ok := o.(*v1alpha1.Proxy); ok {
		f.Store.Remove(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, string(p.UID))
	}
}

func (f *Feed) secretChanged(ctx context.Context, o any) {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	var list v1alpha1.ProxyList
	if err := f.Proxies.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingFields{f.AuthIndex: s.Name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the Proxies of a credentials Secret", "secret", s.Name)
		return
	}
	for i := range list.Items {
		f.apply(ctx, &list.Items[i])
	}
}

// credentials returns nil when p names none or when they cannot be read; the reconciler tells the user why.
func (f *Feed) credentials(ctx context.Context, p *v1alpha1.Proxy) *provider.Credentials {
	if p.Spec.Auth == nil {
		return nil
	}
	s := &corev1.Secret{}
	if err := f.Secrets.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Spec.Auth.SecretRef.Name}, s); err != nil {
		return nil
	}
	creds, err := CredentialsFromSecret(s)
	if err != nil {
		return nil
	}
	return creds
}
