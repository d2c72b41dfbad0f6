package crash

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// proxyScheme knows Proxies alone: the fake client works through the whole scheme. To make one takes longer than most
// schedules.
var proxyScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
})

// readOnce is an API server that holds one Proxy. It decodes what it stores once per write, not once per read: most of
// what happens here is reading, and the fake client is slow at it.
type readOnce struct {
	client.Client
	latest *v1alpha1.Proxy
}

func newAPI() client.Client {
	scheme := proxyScheme()
	// The plain tracker leaves out managed fields, which would take most of the time.
	return &readOnce{Client: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Proxy{}).
		WithObjectTracker(testing.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).Build()}
}

func (c *readOnce) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	p, ok := obj.(*v1alpha1.Proxy)
	if !ok {
		return c.Client.Get(ctx, k, obj, opts...)
	}
	if c.latest == nil {
		read := &v1alpha1.Proxy{}
		if err := c.Client.Get(ctx, k, read, opts...); err != nil {
			return err
		}
		c.latest = read
	}
	c.latest.DeepCopyInto(p)
	return nil
}

func (c *readOnce) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	c.latest = nil
	return c.Client.Create(ctx, obj, opts...)
}

func (c *readOnce) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	c.latest = nil
	return c.Client.Update(ctx, obj, opts...)
}

func (c *readOnce) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	c.latest = nil
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func (c *readOnce) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	c.latest = nil
	return c.Client.Delete(ctx, obj, opts...)
}

func (c *readOnce) Status() client.SubResourceWriter { return &readOnceStatus{c.Client.Status(), c} }

type readOnceStatus struct {
	client.SubResourceWriter
	c *readOnce
}

func (s *readOnceStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	s.c.latest = nil
	return s.SubResourceWriter.Update(ctx, obj, opts...)
}

func (s *readOnceStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	s.c.latest = nil
	return s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}
