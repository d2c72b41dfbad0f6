package crash

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// mortalClient makes every write an effect.
type mortalClient struct {
	client.Client
	w *world
}

func (c *mortalClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.w.write("write finalizer", func() error {
		if bound(patch, obj) {
			return c.Client.Update(ctx, obj)
		}
		return c.Client.Patch(ctx, obj, patch, opts...)
	})
}

func (c *mortalClient) Status() client.SubResourceWriter {
	return &mortalStatus{c.Client.Status(), c.w}
}

// write is an effect beside which somebody else may write.
func (w *world) write(name string, do func() error) error {
	when := w.interfere
	w.interfere = never
	if when == before {
		w.touch()
	}
	err := w.effect(name, do)
	if when == answered {
		w.touch()
	}
	return err
}

// touch is a foreign write that changes nothing of what the operator reads.
func (w *world) touch() {
	w.edit(func(p *v1alpha1.Proxy) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "example.com/touched", w.clock.Now().String())
	})
}

type mortalStatus struct {
	client.SubResourceWriter
	w *world
}

func (c *mortalStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.w.write("write status", func() error {
		if bound(patch, obj) {
			return c.SubResourceWriter.Update(ctx, obj)
		}
		return c.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	})
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
