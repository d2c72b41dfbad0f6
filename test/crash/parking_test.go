package crash

import (
	"bytes"
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// parkingClient parks its operator before every read from the cache and every write.
type parkingClient struct {
	client.Client
	op *operator
}

func (c *parkingClient) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.op.park(atCached)
	if p, ok := obj.(*v1alpha1.Proxy); ok && c.op.cache != nil {
		c.op.cache.DeepCopyInto(p)
		c.op.learn(p.ResourceVersion)
	} else {
		if err := c.Client.Get(ctx, k, obj, opts...); err != nil {
			c.op.learn(err)
			return err
		}
		c.op.learn(c.op.d.written)
	}
	c.op.read, c.op.proven, c.op.evidence = obj.GetResourceVersion(), false, 0
	return nil
}

func (c *parkingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.op.write(atFinalizer, func() error {
		if bound(patch, obj) {
			return c.Client.Update(ctx, obj)
		}
		return c.Client.Patch(ctx, obj, patch, opts...)
	})
}

func (c *parkingClient) Status() client.SubResourceWriter {
	return &parkingStatus{c.Client.Status(), c.op}
}

type parkingStatus struct {
	client.SubResourceWriter
	op *operator
}

func (c *parkingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.op.write(atStatus, func() error {
		if bound(patch, obj) {
			return c.SubResourceWriter.Update(ctx, obj)
		}
		return c.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	})
}

// bound reports whether the patch applies to nothing but the version of obj that was read. Then an update with obj is the
// same, and the fake client does it several times faster.
func bound(patch client.Patch, obj client.Object) bool {
	data, err := patch.Data(obj)
	return err == nil && bytes.Contains(data, []byte(`"resourceVersion":"`+obj.GetResourceVersion()+`"`))
}

func (op *operator) write(place string, do func() error) error {
	op.park(place)
	err := do()
	if err == nil {
		op.wrote, op.proven = true, true
		op.d.wrote(op.past)
	}
	op.learn(op.d.written, err)
	return err
}

// liveReader parks its operator before every live read.
type liveReader struct {
	client.Reader
	op *operator
}

func (r liveReader) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	r.op.park(atLive)
	err := r.Reader.Get(ctx, k, obj, opts...)
	same := err == nil && obj.GetResourceVersion() == r.op.read
	r.op.proven, r.op.evidence = r.op.proven || same, r.op.evidence.after(readLive, same || r.op.wrote)
	r.op.learn(r.op.d.written)
	return err
}

// parkingProvider parks its operator before every call; what is sent is parked once more by duo.fault.
type parkingProvider struct {
	provider.Provider
	op *operator
}

func (p *parkingProvider) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	p.op.park(atPlan)
	id, err := p.Provider.Plan(ctx, req)
	p.op.learn(id, err)
	return id, err
}

func (p *parkingProvider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	p.op.park(atCreate)
	err := p.Provider.Create(ctx, req, ref)
	p.op.learn(err)
	return err
}

func (p *parkingProvider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	p.op.asked = ref.ID
	p.op.park(atGet)
	inst, err := p.Provider.Get(ctx, ref)
	if inst != nil {
		p.op.evidence = p.op.evidence.after(sawRecorded, inst.Identity != "" && inst.Marks.Attempt == ref.Attempt)
		p.op.learn(*inst)
	} else {
		p.op.learn(err)
	}
	return inst, err
}

func (p *parkingProvider) Delete(ctx context.Context, ref provider.Ref) error {
	p.op.park(atDelete)
	err := p.Provider.Delete(ctx, ref)
	p.op.learn(err)
	return err
}

func (p *parkingProvider) ListByTag(ctx context.Context) (provider.Listing, error) {
	p.op.park(atList)
	listing, err := p.Provider.ListByTag(ctx)
	p.op.evidence = listed
	p.op.learn(listing, err)
	return listing, err
}
