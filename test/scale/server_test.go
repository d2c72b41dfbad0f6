package scale

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// kind is a resource that the server has.
type kind string

const (
	kindProxy  kind = "Proxy"
	kindSecret kind = "Secret"
)

// server is what the operator needs of an API server: it keeps Proxies and Secrets as JSON, checks resource versions, keeps
// status and the rest apart, honours finalizers and tells watchers. controller-runtime's fake client does that too, but
// takes several times as long for each write, which a fleet of a thousand does not allow.
//
// Objects that were stored are never changed again, so readers share them.
type server struct {
	mu       sync.Mutex
	version  int64
	objects  map[kind]map[types.NamespacedName]stored
	buried   map[kind][]client.Object // the last state of what was deleted
	watchers map[kind][]*stream
	// onWrite is told of every change of a Proxy; nil stands for absence. It runs with the server's lock held.
	onWrite []func(before, after *v1alpha1.Proxy)
}

type stored struct {
	obj client.Object
	raw []byte
}

func newServer() *server {
	return &server{
		objects:  map[kind]map[types.NamespacedName]stored{kindProxy: {}, kindSecret: {}},
		buried:   map[kind][]client.Object{},
		watchers: map[kind][]*stream{},
	}
}

func newObject(k kind) client.Object {
	if k == kindSecret {
		return &corev1.Secret{}
	}
	return &v1alpha1.Proxy{}
}

func resource(k kind) schema.GroupResource {
	if k == kindSecret {
		return schema.GroupResource{Resource: "secrets"}
	}
	return schema.GroupResource{Group: v1alpha1.Group, Resource: "proxies"}
}

// get returns the stored object, which nobody may change.
func (s *server) get(k kind, key types.NamespacedName) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.objects[k][key]; ok {
		return found.obj, nil
	}
	return nil, apierrors.NewNotFound(resource(k), key.Name)
}

// list returns the stored objects in no particular order, and the version they are as of.
func (s *server) list(k kind) (all []client.Object, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.objects[k] {
		all = append(all, found.obj)
	}
	return all, strconv.FormatInt(s.version, 10)
}

// create stores obj under a new version. No schema is checked: what older rules admitted can be put there, too.
func (s *server) create(k kind, obj client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[k][client.ObjectKeyFromObject(obj)]; ok {
		return apierrors.NewAlreadyExists(resource(k), obj.GetName())
	}
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()))
	return s.put(k, nil, obj)
}

// update lets change edit the object as a user does. A spec that differs makes a new generation.
func (s *server) update(k kind, key types.NamespacedName, change func(client.Object)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.objects[k][key]
	if !ok {
		return apierrors.NewNotFound(resource(k), key.Name)
	}
	next := before.obj.DeepCopyObject().(client.Object)
	change(next)
	if k == kindProxy {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	return s.put(k, before.obj, next)
}

// remove deletes the object, or marks it while finalizers hold it.
func (s *server) remove(k kind, key types.NamespacedName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.objects[k][key]
	if !ok || !before.obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if len(before.obj.GetFinalizers()) == 0 {
		s.bury(k, before.obj)
		return nil
	}
	next := before.obj.DeepCopyObject().(client.Object)
	next.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	next.SetGeneration(next.GetGeneration() + 1)
	return s.put(k, before.obj, next)
}

// patch applies a JSON merge patch to the status alone or to everything but the status. A resource version in it is
// checked.
func (s *server) patch(key types.NamespacedName, data []byte, status bool) (*v1alpha1.Proxy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.objects[kindProxy][key]
	if !ok {
		return nil, apierrors.NewNotFound(resource(kindProxy), key.Name)
	}
	var expected struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if v := expected.Metadata.ResourceVersion; v != "" && v != before.obj.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(kindProxy), key.Name, fmt.Errorf("version %s was expected", v))
	}
	patched := &v1alpha1.Proxy{}
	if err := mergePatch(before.raw, data, patched); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	current := before.obj.(*v1alpha1.Proxy)
	next := current.DeepCopy()
	if status {
		next.Status = patched.Status
	} else {
		next.ObjectMeta, next.Spec = patched.ObjectMeta, patched.Spec
	}
	if !next.DeletionTimestamp.IsZero() && len(next.Finalizers) == 0 {
		s.bury(kindProxy, current)
		return next, nil
	}
	if err := s.put(kindProxy, current, next); err != nil {
		return nil, err
	}
	return s.objects[kindProxy][key].obj.(*v1alpha1.Proxy), nil
}

// put stores next, nil for none before, and tells the watchers. It goes through JSON, which keeps times to the second (or
// the microsecond) as a real server does. s.mu is held.
func (s *server) put(k kind, before, next client.Object) error {
	s.version++
	next.SetResourceVersion(strconv.FormatInt(s.version, 10))
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	obj := newObject(k)
	if err := json.Unmarshal(raw, obj); err != nil {
		return err
	}
	s.objects[k][client.ObjectKeyFromObject(obj)] = stored{obj, raw}
	event := watch.Event{Type: watch.Modified, Object: obj}
	if before == nil {
		event.Type = watch.Added
	}
	s.tell(k, before, obj, event)
	return nil
}

// bury removes what is stored. s.mu is held.
func (s *server) bury(k kind, obj client.Object) {
	s.version++
	delete(s.objects[k], client.ObjectKeyFromObject(obj))
	last := obj.DeepCopyObject().(client.Object)
	last.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.buried[k] = append(s.buried[k], last)
	s.tell(k, obj, nil, watch.Event{Type: watch.Deleted, Object: last})
}

func (s *server) tell(k kind, before, after client.Object, event watch.Event) {
	if k == kindProxy {
		b, _ := before.(*v1alpha1.Proxy)
		a, _ := after.(*v1alpha1.Proxy)
		for _, f := range s.onWrite {
			f(b, a)
		}
	}
	for _, w := range s.watchers[k] {
		w.send(event)
	}
}
