package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// What the manifests have to grant.
//
// +kubebuilder:rbac:groups=crawl.example.com,resources=proxies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch

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
	// mu makes reading the caches and applying what was read one step, see refresh.
	mu sync.Mutex
	// alike are the attributes of snapshots, of which a fleet has few sets: each is kept once. mu guards it.
	alike map[string]map[string]string
}

// maxAlike bounds the sets of attributes that are remembered; beyond it all are forgotten, which only costs memory.
const maxAlike = 4096

// shared returns the one copy of a set of attributes. The caller holds f.mu, and nobody changes what is returned.
func (f *Feed) shared(attributes map[string]string) map[string]string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fmt.Fprintf(&b, "%s=%s,", name, attributes[name]) // neither sign is in a name or a value
	}
	key := b.String()
	if known := f.alike[key]; known != nil {
		return known
	}
	if f.alike == nil || len(f.alike) >= maxAlike {
		f.alike = map[string]map[string]string{}
	}
	f.alike[key] = attributes
	return attributes
}

// NewFeed returns a feed that is not started yet. See the fields of Feed for the arguments.
func NewFeed(store *Store, proxies, secrets cache.Cache, authIndex string) *Feed {
	return &Feed{Store: store, Proxies: proxies, Secrets: secrets, AuthIndex: authIndex, synced: make(chan struct{})}
}

// Synced is closed once the store holds every Proxy that existed at the start.
func (f *Feed) Synced() <-chan struct{} { return f.synced }

// NeedLeaderElection lets every replica keep its read model, so that a new leader starts with a full one.
func (f *Feed) NeedLeaderElection() bool { return false }

// Start registers for events and blocks until ctx ends.
func (f *Feed) Start(ctx context.Context) error {
	if err := f.register(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// register starts the feeding and returns once the store holds what existed, or when ctx ends.
func (f *Feed) register(ctx context.Context) error {
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
	if _, err := secrets.AddEventHandler(handler(func(key types.NamespacedName) { f.secretChanged(ctx, key) })); err != nil {
		return err
	}
	reg, err := proxies.AddEventHandler(handler(func(key types.NamespacedName) { f.refresh(ctx, key) }))
	if err != nil {
		return err
	}
	if toolscache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		close(f.synced)
	}
	return nil
}

// handler tells of every event which object it is about, and nothing else.
func handler(changed func(types.NamespacedName)) toolscache.ResourceEventHandler {
	tell := func(o any) {
		if lost, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = lost.Obj
		}
		if obj, ok := o.(client.Object); ok {
			changed(client.ObjectKeyFromObject(obj))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell}
}

// refresh makes the store hold what the caches say of the Proxy under key. Proxies and Secrets have a goroutine each
// that brings their events, and either may be ahead of the other: what an event carries could be older than what the
// store got from the other side. Events are therefore taken as a hint alone. Each comes after the caches have what it
// is about, so the last one leaves the store with the latest.
func (f *Feed) refresh(ctx context.Context, key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &v1alpha1.Proxy{}
	err := f.Proxies.Get(ctx, key, p)
	switch {
	case err == nil:
		next := FromObject(p, f.credentials(ctx, p))
		next.Attributes = f.shared(next.Attributes)
		f.Store.Apply(next)
	case apierrors.IsNotFound(err):
		if old := f.Store.Get(key); old != nil {
			f.Store.Remove(key, old.UID)
		}
	case ctx.Err() == nil:
		ctrl.LoggerFrom(ctx).Error(err, "reading a Proxy from the cache", "namespace", key.Namespace, "proxy", key.Name)
	}
}

func (f *Feed) secretChanged(ctx context.Context, secret types.NamespacedName) {
	var list v1alpha1.ProxyList
	if err := f.Proxies.List(ctx, &list, client.InNamespace(secret.Namespace), client.MatchingFields{f.AuthIndex: secret.Name}); err != nil {
		if ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "listing the Proxies of a credentials Secret", "namespace", secret.Namespace, "secret", secret.Name)
		}
		return
	}
	for i := range list.Items {
		f.refresh(ctx, client.ObjectKeyFromObject(&list.Items[i]))
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
