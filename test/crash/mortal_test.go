package crash

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// mortalClient makes every write an effect.
type mortalClient struct {
	client.Client
	w *world
}

func (c *mortalClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.w.effect("write finalizer", func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c *mortalClient) Status() client.SubResourceWriter {
	return &mortalStatus{c.Client.Status(), c.w}
}

type mortalStatus struct {
	client.SubResourceWriter
	w *world
}

func (c *mortalStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.w.effect("write status", func() error { return c.SubResourceWriter.Patch(ctx, obj, patch, opts...) })
}

// mortalProvider makes every creation and deletion an effect.
type mortalProvider struct {
	provider.Provider
	w *world
}

func (p *mortalProvider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	return p.w.effect("create", func() error { return p.Provider.Create(ctx, req, ref) })
}

func (p *mortalProvider) Delete(ctx context.Context, ref provider.Ref) error {
	return p.w.effect("delete", func() error { return p.Provider.Delete(ctx, ref) })
}
