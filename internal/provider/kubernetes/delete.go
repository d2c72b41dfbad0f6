package kubernetes

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Delete asks for the removal of the Pod and then of the Secret, each by the UID under which it was read with the marks of
// the named attempt. The kubelet gives the Pod five seconds; Get shows it until then.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	ctx = p.calling(ctx, "delete", ref.ID)
	err := p.delete(ctx, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) delete(ctx context.Context, ref provider.Ref) error {
	const op = "delete"
	at, err := p.placeOf(op, ref.ID)
	if err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	found, err := p.look(ctx, at)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	// The identity is that of the Pod, or of the Secret where there is no Pod.
	if all := found.metas(); len(all) > 0 && ref.Identity != "" && ref.Identity != string(all[0].UID) {
		return nil
	}
	if found.pod != nil && p.ours(&found.pod.ObjectMeta, ref) {
		if err := p.remove(ctx, pods, at, ref, &found.pod.ObjectMeta); err != nil {
			return err
		}
	}
	if found.secret != nil && p.ours(&found.secret.ObjectMeta, ref) {
		if err := p.remove(ctx, secrets, at, ref, &found.secret.ObjectMeta); err != nil {
			return err
		}
	}
	// A stranger beside something of ours is Get's to tell, once that is gone.
	for _, o := range found.metas() {
		if p.ours(o, ref) {
			return nil
		}
	}
	if err := p.foreign(found, ref.UID); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	return nil
}

func (p *Provider) ours(o *metav1.ObjectMeta, ref provider.Ref) bool {
	return p.owner.Foreign(marksOf(o), ref.UID) == nil
}

// remove asks for the removal of what was read as o, if it is of the attempt. What has gone, or is another by now, is not
// what is to be removed.
func (p *Provider) remove(ctx context.Context, resource string, at place, ref provider.Ref, o *metav1.ObjectMeta) error {
	if marksOf(o).Attempt != ref.Attempt || o.DeletionTimestamp != nil {
		return nil
	}
	err := p.api.delete(ctx, resource, at, o.UID)
	if err == nil || absent(err, resource, at) || apierrors.IsConflict(err) {
		return nil
	}
	return p.fail("delete", ref.ID, err)
}
