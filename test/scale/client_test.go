package scale

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// roundTrip is how long a request to the API server takes.
const roundTrip = 5 * time.Millisecond

// link is the operator's connection to the API server. Tests make it fail; every write that got through is on its record.
type link struct {
	server *server

	mu     sync.Mutex
	state  linkState
	writes []write
	failed int // writes that did not get through
}

type linkState int

const (
	linkUp linkState = iota
	// linkRefused: nobody answers, which takes a second to find out.
	linkRefused
	// linkHangs: requests are taken and never answered.
	linkHangs
)

var errLink = errors.New("dial tcp 192.0.2.1:6443: connect: connection refused")

// write is a change of a Proxy that the operator made.
type write struct {
	at     time.Time
	key    types.NamespacedName
	status bool
	// before and after are the stored objects.
	before, after *v1alpha1.Proxy
}

func (l *link) set(s linkState) {
	l.mu.Lock()
	l.state = s
	l.mu.Unlock()
	l.server.silence(s != linkUp)
}

// pass takes a request to the server, or not.
func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	delay, result := roundTrip, error(nil)
	switch state {
	case linkUp:
	case linkRefused:
		delay, result = time.Second, errLink
	case linkHangs:
		delay, result = time.Minute, errLink // the server's own bound
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
	}
	return result
}

func (l *link) patch(ctx context.Context, obj client.Object, patch client.Patch, status bool) error {
	p := obj.(*v1alpha1.Proxy)
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if err := l.pass(ctx); err != nil {
		l.mu.Lock()
		l.failed++
		l.mu.Unlock()
		return err
	}
	key := client.ObjectKeyFromObject(p)
	before, err := l.server.get(kindProxy, key)
	if err != nil {
		return err
	}
	after, err := l.server.patch(key, data, status)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.writes = append(l.writes, write{time.Now(), key, status, before.(*v1alpha1.Proxy), after})
	l.mu.Unlock()
	after.DeepCopyInto(p)
	return nil
}

// since returns the writes that got through from the given time on.
func (l *link) since(t time.Time) (found []write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writes {
		if !w.at.Before(t) {
			found = append(found, w)
		}
	}
	return found
}

// live reads from the server itself.
type live struct{ *link }

// Get implements client.Reader.
func (l live) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	found, err := l.server.get(kindProxy, key)
	if err != nil {
		return err
	}
	switch o := into.(type) {
	case *v1alpha1.Proxy:
		found.(*v1alpha1.Proxy).DeepCopyInto(o)
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = *found.(*v1alpha1.Proxy).ObjectMeta.DeepCopy()
	default:
		panic("only Proxies are read live")
	}
	return nil
}

// List implements client.Reader. Only the orphan collector lists live, and only metadata.
func (l live) List(ctx context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	list, ok := into.(*metav1.PartialObjectMetadataList)
	if !ok || !strings.HasPrefix(list.Kind, "Proxy") {
		panic("only the metadata of Proxies is listed live")
	}
	all, version := l.server.list(kindProxy)
	list.ResourceVersion = version
	for _, o := range all {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: *o.(*v1alpha1.Proxy).ObjectMeta.DeepCopy()})
	}
	return nil
}

// operatorClient is the manager's client: it reads from the cache and writes to the server. What the operator does not use
// is missing.
type operatorClient struct {
	client.Client
	cached client.Reader
	link   *link
}

// Get implements client.Client.
func (c *operatorClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.cached.Get(ctx, key, into, opts...)
}

// List implements client.Client.
func (c *operatorClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.cached.List(ctx, into, opts...)
}

// Patch implements client.Client.
func (c *operatorClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.link.patch(ctx, obj, patch, false)
}

// Status implements client.Client.
func (c *operatorClient) Status() client.SubResourceWriter { return statusWriter{link: c.link} }

type statusWriter struct {
	client.SubResourceWriter
	link *link
}

// Patch implements client.SubResourceWriter.
func (w statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.link.patch(ctx, obj, patch, true)
}

// provisioned returns the Provisioned condition of p, a zero one where there is none.
func provisioned(p *v1alpha1.Proxy) metav1.Condition {
	return condition(p, v1alpha1.ConditionProvisioned)
}

// healthy returns the Healthy condition of p.
func healthy(p *v1alpha1.Proxy) metav1.Condition { return condition(p, v1alpha1.ConditionHealthy) }

func condition(p *v1alpha1.Proxy, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// failures returns how many writes did not get through.
func (l *link) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
