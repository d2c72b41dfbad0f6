package fleet_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// objects is a cache of one kind whose events a test brings itself, each on the goroutine that calls put or remove.
type objects[T client.Object] struct {
	cache.Cache
	informer
	mu    sync.Mutex
	held  map[types.NamespacedName]T
	after func() // runs once, when a Get or List has read and not returned yet
	skip  int    // so many of them pass before
}

func newObjects[T client.Object]() *objects[T] {
	return &objects[T]{held: map[types.NamespacedName]T{}, informer: informer{ready: make(chan struct{})}}
}

type informer struct {
	cache.Informer
	ready   chan struct{}
	behind  atomic.Bool
	handler toolscache.ResourceEventHandler
}

func (i *informer) HasSynced() bool { return !i.behind.Load() }

func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	close(i.ready)
	return registration{}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

func (o *objects[T]) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return &o.informer, nil
}

func (o *objects[T]) put(obj T) {
	o.mu.Lock()
	o.held[client.ObjectKeyFromObject(obj)] = obj
	o.mu.Unlock()
	o.handler.OnUpdate(nil, obj)
}

func (o *objects[T]) remove(obj T) {
	o.mu.Lock()
	delete(o.held, client.ObjectKeyFromObject(obj))
	o.mu.Unlock()
	o.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: obj})
}

func (o *objects[T]) read() func() {
	if o.skip--; o.after == nil || o.skip >= 0 {
		return func() {}
	}
	f := o.after
	o.after = nil
	return f
}

func (o *objects[T]) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.mu.Lock()
	obj, ok := o.held[key]
	then := o.read()
	o.mu.Unlock()
	defer then()
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	switch into := into.(type) {
	case *v1alpha1.Proxy:
		any(obj).(*v1alpha1.Proxy).DeepCopyInto(into)
	case *corev1.Secret:
		any(obj).(*corev1.Secret).DeepCopyInto(into)
	}
	return nil
}

func (o *objects[T]) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	o.mu.Lock()
	for _, obj := range o.held {
		list := into.(*v1alpha1.ProxyList)
		list.Items = append(list.Items, *any(obj).(*v1alpha1.Proxy).DeepCopy())
	}
	then := o.read()
	o.mu.Unlock()
	then()
	return nil
}

// TestCredentialsComeFirst: a Proxy taken in before its Secret would be withdrawn for a moment.
func TestCredentialsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{newObjects[*v1alpha1.Proxy](), newObjects[*corev1.Secret]()}
		w.secrets.behind.Store(true)
		feed := fleet.NewFeed(fleet.NewStore(), w.proxies, w.secrets, authIndex)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- feed.Start(ctx) }()
		select {
		case <-w.proxies.ready:
			t.Error("Proxies are taken in although the Secrets are not known yet")
		case <-time.After(time.Minute):
		}
		w.secrets.behind.Store(false)
		<-feed.Synced()
		cancel()
		must(t, <-ended)
	})
}

type world struct {
	proxies *objects[*v1alpha1.Proxy]
	secrets *objects[*corev1.Secret]
}

// TestWhatOneInformerBringsIsNotUndoneByTheOther lets an event of one informer come exactly between the other's reading
// of the cache and its writing to the store. The two run on goroutines of their own; only the last state may stay.
func TestWhatOneInformerBringsIsNotUndoneByTheOther(t *testing.T) {
	before := goleak.IgnoreCurrent()
	proxyAt := func(host string) *v1alpha1.Proxy {
		p := running()
		p.Spec.Auth, p.Status.IP = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "creds"}}, host
		return p
	}
	secretWith := func(password string) *corev1.Secret {
		s := secret("user", password)
		s.Namespace = "ns"
		return s
	}
	for _, tc := range []struct {
		name string
		race func(w world, meanwhile func(func()) func())
		want func(*fleet.Proxy) bool
	}{
		{
			name: "a Proxy changes after its Secret's event listed it",
			race: func(w world, meanwhile func(func()) func()) {
				w.proxies.after = meanwhile(func() { w.proxies.put(proxyAt("192.0.2.9")) })
				w.secrets.put(secretWith("two"))
			},
			want: func(p *fleet.Proxy) bool { return password("two")(p) && p.Endpoint.Host == "192.0.2.9" },
		},
		{
			name: "a Proxy changes after its Secret's event read it",
			race: func(w world, meanwhile func(func()) func()) {
				w.proxies.skip, w.proxies.after = 1, meanwhile(func() { w.proxies.put(proxyAt("192.0.2.9")) })
				w.secrets.put(secretWith("two"))
			},
			want: func(p *fleet.Proxy) bool { return password("two")(p) && p.Endpoint.Host == "192.0.2.9" },
		},
		{
			name: "a Proxy goes after its Secret's event listed it",
			race: func(w world, meanwhile func(func()) func()) {
				w.proxies.after = meanwhile(func() { w.proxies.remove(proxyAt("192.0.2.1")) })
				w.secrets.put(secretWith("two"))
			},
			want: gone,
		},
		{
			name: "a Proxy goes after its Secret's event read it",
			race: func(w world, meanwhile func(func()) func()) {
				w.proxies.skip, w.proxies.after = 1, meanwhile(func() { w.proxies.remove(proxyAt("192.0.2.1")) })
				w.secrets.put(secretWith("two"))
			},
			want: gone,
		},
		{
			name: "a Secret is rotated after its Proxy's event read it",
			race: func(w world, meanwhile func(func()) func()) {
				w.secrets.after = meanwhile(func() { w.secrets.put(secretWith("two")) })
				w.proxies.put(proxyAt("192.0.2.9"))
			},
			want: func(p *fleet.Proxy) bool { return password("two")(p) && p.Endpoint.Host == "192.0.2.9" },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := world{newObjects[*v1alpha1.Proxy](), newObjects[*corev1.Secret]()}
			store := fleet.NewStore()
			feed := fleet.NewFeed(store, w.proxies, w.secrets, authIndex)
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			others.Go(func() {
				if err := feed.Start(ctx); err != nil {
					t.Error(err)
				}
			})
			<-w.proxies.ready
			<-w.secrets.ready
			<-feed.Synced()
			w.secrets.put(secretWith("one"))
			w.proxies.put(proxyAt("192.0.2.1"))
			if p := store.Get(name("a")); !password("one")(p) {
				t.Fatalf("starts with %+v", p)
			}
			w.proxies.skip, w.secrets.skip = 0, 0
			tc.race(w, func(event func()) func() {
				return func() {
					done := make(chan struct{})
					others.Go(func() {
						defer close(done)
						event()
					})
					// As far as it gets without what this goroutine holds.
					select {
					case <-done:
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
			cancel()
			others.Wait()
			if p := store.Get(name("a")); !tc.want(p) {
				t.Errorf("the store stays with %+v", p)
			}
		})
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
